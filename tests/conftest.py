"""Options of the suite, and servers that many tests share, started once for each test process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Their assertions say what was found, too. Before they are imported.
pytest.register_assert_rewrite(
    "tests.support", "tests.faults.support", "tests.faults.redis", "tests.faults.postgres"
)

from tests.support.servers import PostgresServer  # noqa: E402

# Property tests judge what is computed, not how fast this machine is at the moment. They try the
# same examples each time; others with `--hypothesis-profile=default`. Set before any is imported.
settings.register_profile(
    "unhurried",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not in tests/simulation: pytest asks no deeper conftest for options.
    parser.addoption("--seed", type=int, help="replay this one simulated history")


def pytest_configure() -> None:
    # A shell has the processes that it starts in the background ignore SIGINT, and theirs too;
    # tests send it to themselves and to others.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL. Without fsync: what is tested is not the disk."""
    server = PostgresServer(fsync="off", synchronous_commit="off")
    try:
        yield server.start()
    finally:
        server.close()
