"""How a lease is kept: how often it is renewed, and no longer than its work may take."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import AsyncLease, AsyncLeases, Lease, LeaseLost, Leases, single_instance
from tenure.backends.memory import MemoryBackend
from tenure.errors import ConfigError
from tenure.facts import LeaseOverrun
from tenure.leases.keeping import Keeping
from tenure.model import Grant
from tenure.node.elector import Elector
from tenure.node.keeper import Keeper
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.leases.everywhere import everywhere
from tests.unit.node.services import SETTINGS, holder, listening, names

SOON = 20.0


@pytest.fixture
def leases(url: str) -> Iterator[Leases]:
    with Leases(url) as leases:
        yield leases


def ways(url: str) -> dict[str, Callable[..., Any]]:
    """All that keep a lease alive; none of them connects yet."""
    plain, later = Leases(url), AsyncLeases(url)
    return {
        "hold": lambda **given: plain.hold("job", **given),
        "exclusive": lambda **given: plain.exclusive("job", **given),
        "leading": lambda **given: plain.leading("job", **given),
        "single_instance": lambda **given: single_instance(url, "job", **given),
        "async hold": lambda **given: later.hold("job", **given),
        "async exclusive": lambda **given: later.exclusive("job", **given),
        "async leading": lambda **given: later.leading("job", **given),
    }


WAYS = tuple(ways("memory://"))


@pytest.mark.parametrize("way", WAYS)
def test_heartbeat_and_ttl_are_chosen_and_checked(way: str, url: str) -> None:
    keep = ways(url)[way]
    assert keep(ttl=30, heartbeat=10) is not None
    with pytest.raises(
        ConfigError, match=r"heartbeat <= ttl/3.*heartbeat=11, ttl/3=10\. Raise ttl or lower"
    ):
        keep(ttl=30, heartbeat=11)
    for wrong in (0, -1, float("nan"), "10", True):
        with pytest.raises(ConfigError, match="heartbeat"):
            keep(ttl=30, heartbeat=wrong)
    with pytest.raises(ConfigError, match="ttl must be between"):
        keep(ttl="30")


def test_lead_checks_before_it_begins(leases: Leases) -> None:
    with pytest.raises(ConfigError, match="heartbeat <= ttl/3"):
        leases.lead("job", ttl=30, heartbeat=20)
    assert leases.inspect("job") is None


@pytest.mark.parametrize("way", WAYS)
def test_max_time_is_a_number_of_seconds(way: str, url: str) -> None:
    keep = ways(url)[way]
    assert keep(ttl=30, max_time=3600) is not None
    for wrong in (0, -1, float("nan"), float("inf"), "10", True):
        with pytest.raises(ConfigError, match="max_time must be a number of seconds"):
            keep(ttl=30, max_time=wrong)


@everywhere
def test_heartbeat_is_that_of_each_lease(leases: Leases) -> None:
    with leases.hold("slow", ttl=30, heartbeat=10), leases.hold("usual", ttl=30):
        keeper = leases._runtime._connection.keeper
        beats = {held.grant.name: held.heartbeat for held in keeper.held}
    assert beats == {"slow": 10, "usual": 6}


async def test_lease_that_nobody_keeps_alive_must_outlast_its_work(url: str) -> None:
    says = r"max_time < ttl .*not kept alive: max_time=30, ttl=30\..*use hold\(\)"
    with pytest.raises(ConfigError, match=says):
        Leases(url).acquire("job", ttl=30, max_time=30)
    with pytest.raises(ConfigError, match=says):
        await AsyncLeases(url).acquire("job", ttl=30, max_time=30)


@everywhere
def test_unkept_lease_ends_with_its_max_time(leases: Leases) -> None:
    lease = leases.acquire("job", ttl=30, max_time=0.2)
    assert lease is not None
    assert lease.remaining <= 0.2
    _wait_until(lambda: not lease.held)
    with pytest.raises(LeaseLost, match=r"its max_time of 0\.2 s is over\. Stop what it guards"):
        lease.check()
    with pytest.raises(LeaseLost, match="max_time"):
        lease.renew()
    assert leases.acquire("job") is None  # its code may not have stopped yet
    assert lease.release()


@everywhere
def test_kept_lease_is_renewed_no_longer_than_its_max_time(leases: Leases, url: str) -> None:
    """Its code is told; the lease protects it until it leaves the block, or for one more ttl."""
    with leases.hold("job", ttl=30, max_time=0.2) as lease:
        _wait_until(lambda: not lease.held)
        with pytest.raises(LeaseLost, match=r"its max_time of 0\.2 s is over"):
            lease.check()
        _wait_until(lambda: not leases._runtime._connection.keeper.held)
        with Leases(url) as others:
            assert others.acquire("job") is None
    taken = leases.acquire("job")
    assert taken is not None
    assert taken.term > lease.term


@everywhere
def test_work_that_overran_and_lost_its_lease_is_told(leases: Leases, url: str) -> None:
    with (
        Leases(url) as others,
        pytest.raises(LeaseLost, match="while the block ran"),
        leases.hold("job", ttl=0.6, max_time=0.1),
        others.hold("job", ttl=30, wait=SOON),
    ):
        pass


def test_exclusive_function_is_told_by_the_lease_that_it_asks_for(leases: Leases) -> None:
    @leases.exclusive("job", ttl=30, max_time=0.1)
    def work(lease: Lease, step: str) -> str:
        assert lease.name == "job"
        _wait_until(lambda: not lease.held)
        with pytest.raises(LeaseLost, match=r"max_time of 0\.1 s is over"):
            lease.check()
        return step

    assert work("stopped") == work(step="stopped") == "stopped"
    assert list(inspect.signature(work).parameters) == ["step"]


async def test_the_same_awaited(url: str) -> None:
    async with AsyncLeases(url) as leases:

        @leases.exclusive("job")
        async def work(lease: AsyncLease) -> str:
            lease.check()
            return lease.name

        assert await work() == "job"


@everywhere
def test_leader_steps_down_after_its_max_time_and_comes_back_later(leases: Leases) -> None:
    terms: list[int] = []
    began, ended, again = threading.Event(), threading.Event(), threading.Event()

    def on_start(lease: Lease) -> None:
        terms.append(lease.term)
        (again if began.is_set() else began).set()

    leading = leases.lead("post", on_start, ended.set, ttl=0.6, max_time=0.2)
    assert began.wait(SOON)
    assert ended.wait(SOON)
    assert again.wait(SOON)
    leading.stop()
    assert terms == sorted(set(terms))
    assert leases.acquire("post") is not None


async def test_keeper_drops_what_overran_and_says_so() -> None:
    clock = FakeClock()
    store = MemoryBackend(clock).leases
    facts, told = listening()
    keeper = Keeper(store, Surroundings(clock, facts, SETTINGS))
    grant = await store.acquire("job", holder("ann"), 30.0)
    assert isinstance(grant, Grant)
    keeping = Keeping(30.0, heartbeat=10.0, max_time=25.0)
    held = keeper.keep(keeping.hold(grant, clock, clock.monotonic()))
    assert await keeper.step() == 10.0
    for _ in range(2):
        clock.advance(10.0)
        await keeper.step()
    assert held.remaining == 5.0  # not the ttl: that is when it ends
    clock.advance(5.0)
    assert held.remaining == 0.0
    await keeper.step()
    assert keeper.held == []
    assert told[-1] == LeaseOverrun("job", grant.term, "ann", 25.0)
    record = await store.read("job")
    assert record is not None
    assert record.live
    assert record.counter == 2


async def test_elector_that_overran_lets_others_have_their_turn() -> None:
    clock = FakeClock()
    store = MemoryBackend(clock).leases
    facts, told = listening()
    around = Surroundings(clock, facts, SETTINGS)
    keeper = Keeper(store, around)
    elector = Elector("post", holder("ann"), store, keeper, around, max_time=3.0)
    await elector.step()
    await elector.step()
    clock.advance(3.0)
    await keeper.step()
    assert await elector.step() == SETTINGS.ttl
    assert elector.leading is None
    assert "leader.took_office" in names(told)
    assert names(told)[-2:] == ["lease.overrun", "leader.left_office"]
    clock.advance(SETTINGS.ttl)
    assert isinstance(await store.acquire("post", holder("bob"), 10.0), Grant)


def _wait_until(fact: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(int(SOON / 0.01)):
        if fact():
            return
        done.wait(0.01)
    raise AssertionError("it did not come about")
