"""A lease that was held when the machine went down, and callers that ask for it once.

What docs/sqlite.md says under "After a restart of the machine".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from tenure import LeaseHeld, Leases, single_instance

TTL = 1.0


def _acquire(url: str) -> bool:
    with Leases(url) as leases:
        return leases.acquire("job", ttl=TTL) is not None


def _hold(url: str) -> bool:
    with Leases(url) as leases:
        try:
            with leases.hold("job", ttl=TTL):
                return True
        except LeaseHeld:
            return False


def _exclusive(url: str) -> bool:
    with Leases(url) as leases:
        return bool(leases.exclusive("job", ttl=TTL)(lambda: True)())


def _single_instance(url: str) -> bool:
    with single_instance(url, "job", "skip", ttl=TTL) as guard:
        return guard.held


def left_over(path: Path, ttl: float) -> str:
    """The URL of a store in which a holder of before the restart still has the lease."""
    url = f"sqlite:///{path}"
    with patch("tenure.backends.sqlite.leases.clock_domain", lambda: "the boot before"):
        leases = Leases(url)
        assert leases.acquire("job", ttl=ttl) is not None
        leases.close()
    return url


@pytest.mark.slow
@pytest.mark.parametrize("ask", [_acquire, _hold, _exclusive, _single_instance])
def test_who_asks_once_watches_for_a_ttl_and_has_it(
    tmp_path: Path, ask: Callable[[str], bool]
) -> None:
    url = left_over(tmp_path / "a.db", TTL)
    time.sleep(TTL)  # its time is up by the wall clock; the boot clock cannot tell
    begun = time.monotonic()
    assert ask(url)
    assert time.monotonic() - begun >= TTL


@pytest.mark.parametrize("ask", [_acquire, _hold, _exclusive, _single_instance])
def test_while_its_time_is_not_up_by_the_wall_clock_it_is_held(
    tmp_path: Path, ask: Callable[[str], bool]
) -> None:
    assert not ask(left_over(tmp_path / "a.db", 600))
