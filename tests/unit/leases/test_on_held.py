"""One word for what happens when another holder has it, and who that is."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tenure import (
    AsyncLease,
    AsyncLeases,
    ConfigError,
    Lease,
    LeaseHeld,
    LeaseLost,
    Leases,
    Skipped,
    single_instance,
)
from tests.unit.leases.everywhere import everywhere


@pytest.fixture
def other(url: str) -> Iterator[Lease]:
    """Somebody has it."""
    with Leases(url) as leases:
        lease = leases.acquire("job", ttl=60)
        assert lease is not None
        yield lease


@everywhere
def test_skip_returns_none_and_raise_says_who_has_it(url: str, other: Lease) -> None:
    with Leases(url) as leases:
        assert leases.acquire("job") is None
        assert leases.acquire("job", on_held="skip") is None
        with pytest.raises(LeaseHeld, match="is held by process") as told:
            leases.acquire("job", on_held="raise")
        record = told.value.record
        assert record is not None
        assert (record.holder, record.term, record.live) == (other.holder, other.term, True)
        assert leases.acquire("free", on_held="raise") is not None


@everywhere
async def test_the_same_awaited(url: str, other: Lease) -> None:
    async with AsyncLeases(url) as leases:
        assert await leases.acquire("job") is None
        with pytest.raises(LeaseHeld) as told:
            await leases.acquire("job", on_held="raise")
        assert told.value.record is not None
        assert told.value.record.holder == other.holder


@pytest.mark.parametrize("wrong", ["wait", "fail", "", None])
def test_other_words_are_refused(wrong: Any, url: str) -> None:
    with pytest.raises(ConfigError, match="choose 'skip' or 'raise'"):
        Leases(url).acquire("job", on_held=wrong)
    with pytest.raises(ConfigError, match="choose 'skip' or 'raise'"):
        Leases(url).exclusive("job", on_held=wrong)


def test_both_have_the_same_names() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(Leases) - {"aclose"} == names(AsyncLeases)
    assert names(Lease) == names(AsyncLease)
    for name in ("acquire", "inspect", "evict", "lead", "leading"):
        plain = inspect.signature(getattr(Leases, name)).parameters
        assert list(plain) == list(inspect.signature(getattr(AsyncLeases, name)).parameters)


@everywhere
async def test_async_leases_on_the_loop_of_the_application(url: str) -> None:
    async with AsyncLeases(url) as leases:
        lease = await leases.acquire("job", ttl=30)
        assert isinstance(lease, AsyncLease)
        lease.check()
        assert await lease.renew()
        record = await leases.inspect("job")
        assert record is not None
        assert (record.holder, record.counter) == (lease.holder, 1)
        assert await lease.release()
        assert not lease.held


@everywhere
async def test_async_lease_that_is_lost(url: str) -> None:
    async with AsyncLeases(url) as leases:
        hold = leases.hold("job", ttl=30)
        lease = await hold.__aenter__()
        assert isinstance(lease, AsyncLease)
        assert await leases.evict("job", "for the test") is not None
        assert not await lease.renew()
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(LeaseLost, match="while the block ran"):
            await hold.__aexit__(None)


@everywhere
async def test_async_exclusive_and_leading(url: str) -> None:
    async with AsyncLeases(url) as leases:

        @leases.exclusive("report")
        async def report() -> str:
            assert isinstance(await twice(), Skipped)
            return "done"

        @leases.exclusive("report")
        async def twice() -> str:
            return "twice"

        assert await report() == "done"
        began, ended = asyncio.Event(), asyncio.Event()

        async def on_start(lease: AsyncLease) -> None:
            lease.check()
            began.set()

        async def on_stop() -> None:
            ended.set()

        async def _set(event: asyncio.Event) -> None:
            event.set()

        campaign = await leases.lead("post", on_start, on_stop)
        async with asyncio.timeout(20):
            await began.wait()
        assert campaign.is_leader
        assert isinstance(campaign.lease, AsyncLease)
        await campaign.stop()
        assert ended.is_set()
        again = asyncio.Event()
        async with leases.leading("post", on_start=lambda lease: _set(again)) as me:
            async with asyncio.timeout(20):
                await again.wait()
            assert me.is_leader


@everywhere
def test_guard_has_the_same_word(url: str, other: Lease) -> None:
    with pytest.raises(LeaseHeld) as told, single_instance(url, "job"):
        pass
    assert told.value.stage == "campaign"
    assert "Startup stopped at stage 'campaign'" in told.value.__notes__[0]
    with pytest.raises(LeaseHeld), single_instance(url, "job", on_held="raise"):
        pass
    with single_instance(url, "job", on_held="skip") as guard:
        assert not guard.held
        assert guard.holder is not None
        assert guard.holder.holder == other.holder
    other.release()
    with single_instance(url, "job", on_held="wait", heartbeat=2, max_time=60) as guard:
        assert guard.held


async def test_guard_that_is_refused_closes_without_blocking_the_loop(
    url: str, other: Lease
) -> None:
    called: set[str] = set()
    sys.setprofile(lambda frame, *_: called.add(frame.f_code.co_qualname))
    try:
        with pytest.raises(LeaseHeld):
            await single_instance(url, "job").__aenter__()
    finally:
        sys.setprofile(None)
    assert "Leases.aclose" in called
    assert "LoopThread.call" not in called


@pytest.mark.parametrize(
    ("earlier", "now"), [("fail", "raise"), ("skip", "skip"), ("standby", "wait")]
)
def test_earlier_name_of_the_choice_works_with_a_warning(earlier: str, now: str, url: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"when_held='{earlier}' is now on_held='{now}'"):
        guard = single_instance(url, "job", when_held=earlier)
    with guard:
        assert guard.held


def test_guard_refuses_other_words_and_both_names(url: str) -> None:
    with pytest.raises(ConfigError, match=r"choose 'raise'.*'skip'.*'wait'"):
        single_instance(url, "job", on_held="standby")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give only on_held"):
        single_instance(url, "job", on_held="wait", when_held="standby")


def test_wrong_argument_is_named_with_the_right_ones() -> None:
    wrong: Any
    for wrong in (Leases, AsyncLeases):
        with pytest.raises(ConfigError, match=rf"{wrong.__name__}\(\) takes no argument 'namespce"):
            wrong("memory://", namespce="shop")
        with pytest.raises(ConfigError, match=r"lease is taken, such as hold\('import', ttl=…\)"):
            wrong("memory://", ttl=30)


async def test_wrong_argument_where_a_lease_is_taken() -> None:
    wrong: Any
    for leases in (Leases("memory://"), AsyncLeases("memory://")):
        for wrong in (
            leases.acquire,
            leases.hold,
            leases.exclusive,
            leases.lead,
            leases.leading,
        ):
            with pytest.raises(ConfigError) as told:
                wrong("job", max_tme=5)
            said = f"{wrong.__name__}() takes no argument 'max_tme'. Did you mean 'max_time'?"
            assert str(told.value).startswith(said)
            assert "It takes name, " in str(told.value)
    wrong = single_instance
    with pytest.raises(ConfigError, match=r"single_instance\(\) takes no argument 'nam'"):
        wrong("memory://", nam="job")
