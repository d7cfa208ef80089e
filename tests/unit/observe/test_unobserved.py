"""A scheduler that nobody observes pays nothing for it: nothing is in between, nothing listens."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tenure import Scheduler
from tenure.backends.base import Stores
from tenure.facts.fact import log
from tests.unit.observe.observing import ANYWHERE


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("store", ["memory://", "sqlite:///"])
def test_only_an_observed_node_has_something_between_itself_and_its_store(
    store: str, observed: bool, tmp_path: Path
) -> None:
    url = store if store == "memory://" else f"{store}{tmp_path / 'tenure.db'}"
    with Scheduler(url, health=ANYWHERE if observed else None) as scheduler:
        runtime = scheduler._runtime
        node, backend = runtime.node, runtime._backend
        assert node is not None
        assert backend is not None
        plain = Stores.of(backend)
        # The very objects of the backend: a call costs what it costs there.
        same = {
            part.name: getattr(node._stores, part.name) == getattr(plain, part.name)
            for part in fields(Stores)
        }
        assert all(same.values()) != observed, same
        services = (node.keeper._leases, node.ticker._schedules, node.worker._runs)
        of_backend = (backend.leases, backend.schedules, backend.runs)
        assert [mine is its for mine, its in zip(services, of_backend, strict=True)] == [
            not observed
        ] * 3
        # Only the log hears facts, and it is asked first whether anybody reads it.
        heard = [listener for _, listener, _ in node.ticker.facts._listeners]
        assert (heard == [log]) != observed


def test_unobserved_scheduler_imports_no_observer() -> None:
    code = (
        "import sys, tenure\n"
        "with tenure.Scheduler('memory://'):\n"
        "    known = {name.partition('.')[0] for name in sys.modules}\n"
        "    print('tenure.observe' in sys.modules, known & {'prometheus_client', 'opentelemetry'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False set()\n"
