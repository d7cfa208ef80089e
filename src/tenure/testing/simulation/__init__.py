"""Whole clusters in virtual time: the real services, a store, and everything that can go wrong.

    from tenure.testing.simulation import check, simulate

    history = simulate(seed=7)
    assert not check(history)

A history is a pure function of its seed. `python -m tenure.testing.simulation --seed 7 --verbose`
shows it. docs/simulation.md says how it works, and how to put your own tasks into it.
"""

from tenure.testing.simulation.checker import Violation, check
from tenure.testing.simulation.history import Event, History
from tenure.testing.simulation.network import Weather
from tenure.testing.simulation.run import SETTINGS, simulate
from tenure.testing.simulation.workload import Workload

__all__ = ["SETTINGS", "Event", "History", "Violation", "Weather", "Workload", "check", "simulate"]
