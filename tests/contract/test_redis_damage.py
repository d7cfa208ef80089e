"""Damaged records in Redis: each is judged on the safe side, can be taken over in bounded time and
ended by force, and is no reason for anything to stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
import redis

from tenure.backends.address import quoted
from tenure.backends.redis import RedisBackend, damage
from tenure.errors import StoreError
from tenure.model import LONGEST_TTL, Grant, LeaseRecord, Severity
from tests.contract.redis_harness import RedisHarness, open_harness
from tests.support.bad_redis_values import TEXTS, TYPES, retype
from tests.support.servers import ValkeyServer

JUDGED = ("counter", "ttl", "renewed_at", "expires_at", "expires_boot", "pid", "started")
SHOWN = ("host", "info", "acquired_at", "holder_now", "fenced", "client", "run", "boot", "name")
Damage = Callable[[redis.Redis, str], Any]


def _setting(field: str, value: str | bytes) -> Damage:
    return lambda line, key: line.hset(key, field, value)


def _dropping(*fields: str) -> Damage:
    return lambda line, key: line.hdel(key, *fields)


BAD: tuple[str | bytes, ...] = ("", "abc", "-1", "1e400", "1e300", "-inf", "nan", b"\xff\xfe", "[]")
MENDABLE: dict[str, Damage] = {
    **{f"{f}={v!r}": _setting(f, v) for f in JUDGED for v in BAD},
    **{f"{f}={v[:9]!r}": _setting(f, v) for f in SHOWN for v in (b"\xff", "[" * 900, "1e400")},
    **{f"no {field}": _dropping(field) for field in (*JUDGED, *SHOWN)},
    "in the past": _setting("expires_at", "1000000000000"),
    "years ahead": _setting("expires_boot", "1000000000"),
    "short ttl": _setting("ttl", "0.001"),
    "long info": _setting("info", "x" * 300_000),
    "half a hash": _dropping("ttl", "counter", "expires_at", "renewed_at", "info", "pid", "boot"),
}
"""What leaves holder and term as they were: a renewal mends it."""
FATAL: dict[str, Damage] = {
    **{f"holder={v[:9]!r}": _setting("holder", v) for v in (b"\xff", "x" * 5_000, "nobody")},
    **{f"term={v!r}": _setting("term", v) for v in BAD},
    "no holder": _dropping("holder"),
    "no term": _dropping("term"),
    **{f"a {kind}": lambda line, key, kind=kind: retype(line, key, kind) for kind in TYPES},  # type: ignore[misc]
}
del FATAL["a nothing"]
"""What takes it from its holder."""
WHOLLY = {"half a hash", *(how for how in FATAL if how.startswith("a "))}
"""What leaves neither a ttl nor an expiry."""


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
async def harness(server: ValkeyServer) -> AsyncIterator[RedisHarness]:
    async with open_harness(server.url, [server]) as harness:
        yield harness


def _key(harness: RedisHarness, name: str) -> str:
    return f"tenure:{{{harness.namespace}}}:lease:{name}"


async def _damaged(harness: RedisHarness, damages: dict[str, Damage]) -> dict[str, Grant]:
    """A lease for each, held by ann, and damaged in that way; whatever is asked has an answer."""
    grants = {how: await harness.grant(how, "ann") for how in damages}
    for how, act in damages.items():
        act(harness.lines[0], _key(harness, how))
    leases = (await harness.another()).leases
    records = {record.name: record for record in await leases.all()}
    assert records.keys() == grants.keys()
    for how in damages:
        record = await leases.read(how)
        assert record is not None
        assert record.live, f"{how}: not on the safe side"
        await leases.suspect(record)
    await leases.history()
    await leases.forget("", 3600.0, dry_run=True)
    return grants


def _not_to_be_seen(grants: Iterable[str]) -> set[str]:
    """Any text can be a host, a boot, a run or a holder; and nobody reads the name again."""
    texts = {how for how in grants if how.startswith(("host=", "boot=", "run=", "holder="))}
    unread = {how for how in grants if how.startswith(("name=", "no name"))}
    return unread | {how for how in texts if "xxx" not in how and "xff" not in how}


async def test_holder_that_lives_keeps_it_and_mends_it(harness: RedisHarness) -> None:
    grants = await _damaged(harness, MENDABLE)
    watching, bob = (await harness.another()).leases, harness.holder("bob")
    for _ in range(5):
        await harness.advance(harness.ttl * 0.3)
        for how in grants:
            answer = await watching.acquire(how, bob, harness.ttl)
            assert isinstance(answer, LeaseRecord), f"{how}: a living holder has lost it"
        assert await harness.leases.renew(list(grants.values())) == set(grants.values())
    for how, grant in grants.items():
        assert await harness.leases.release(grant), how
        await harness.grant(how, "bob")


async def test_whoever_does_not_renew_it_loses_it_after_a_ttl(harness: RedisHarness) -> None:
    """Or after a day, which is the longest, if nothing says when it ends."""
    grants = await _damaged(harness, MENDABLE | FATAL)
    watching, bob = (await harness.another()).leases, harness.holder("bob")
    for wait in (0.0, 0.5):
        await harness.advance(harness.ttl * wait)
        for how in grants:
            refused = await watching.acquire(how, bob, harness.ttl)
            assert isinstance(refused, LeaseRecord), f"{how}: it was given away too early"
            assert how not in WHOLLY or refused.ttl == LONGEST_TTL, how
    await harness.advance(harness.ttl * 0.7)
    for how in WHOLLY:
        assert isinstance(await watching.acquire(how, bob, harness.ttl), LeaseRecord), how
    for hows in (grants.keys() - WHOLLY, WHOLLY):
        for how in hows:
            answer = await watching.acquire(how, bob, harness.ttl)
            assert isinstance(answer, Grant), f"{how} is for ever: {answer}"
            assert answer.term > grants[how].term
        await harness.advance(LONGEST_TTL)
    assert await harness.leases.renew(list(grants.values())) == set()
    assert {line.holder for line in await harness.leases.history(limit=10_000)} >= {"bob"}


async def test_a_record_is_unreadable_only_if_it_is_damaged(harness: RedisHarness) -> None:
    grants = await _damaged(harness, MENDABLE | FATAL)
    await harness.grant("whole", "ann", info={"app": "shop"})
    await harness.leases.release(await harness.grant("free", "ann"))
    found = {record.name: record.unreadable for record in await harness.leases.all()}
    assert (found.pop("whole"), found.pop("free")) == (None, None)
    for how in grants.keys() - _not_to_be_seen(grants):
        assert (found[how] or "").startswith("its record cannot be read: "), how
    assert found["ttl='abc'"] == "its record cannot be read: ttl='abc'"
    assert found["no pid"] == "its record cannot be read: missing or too long: pid"


async def test_holder_whose_record_was_taken_is_told(harness: RedisHarness) -> None:
    grants = await _damaged(harness, FATAL)
    good = await harness.grant("good", "ann")
    assert await harness.leases.renew([*grants.values(), good]) == {good}
    for how, grant in grants.items():
        assert not await harness.leases.release(grant), how


async def test_evict_ends_it_whatever_it_is(harness: RedisHarness) -> None:
    grants = await _damaged(harness, MENDABLE | FATAL)
    operator = (await harness.another()).leases
    for how, grant in grants.items():
        assert await operator.evict(how, "damaged") is not None, how
        after = await harness.leases.read(how)
        assert after is not None
        assert (after.holder, after.live) == (None, False), how
        assert (await harness.grant(how, "bob")).term > grant.term
        assert "damaged" in [line.end for line in await harness.leases.history(how)], how
    assert await harness.leases.renew(list(grants.values())) == set()


@pytest.mark.parametrize(
    "how",
    [
        "no holder",
        "no term",
        "term='abc'",
        "a string",
        "a hash",
        "holder=b'\\xff'",
        "holder='xxxxxxxxx'",
    ],
)
async def test_what_is_fenced_need_not_wait_for_nobody(harness: RedisHarness, how: str) -> None:
    grant = await harness.grant("job", "ann", fenced=True)
    FATAL[how](harness.lines[0], _key(harness, "job"))
    seen = await harness.leases.read("job")
    assert seen is not None
    assert await harness.leases.suspect(seen), "nobody would ask for it before its ttl"
    assert (await harness.grant("job", "bob", fenced=True)).term > grant.term


async def test_record_that_nobody_renews_is_forgotten(harness: RedisHarness) -> None:
    grants = await _damaged(harness, MENDABLE | FATAL)
    assert (await harness.leases.forget("", 3600.0)).count == 0
    await harness.advance(3601.0)
    forgotten = (await harness.leases.forget("", 3600.0)).count
    assert forgotten == len(grants.keys() - WHOLLY)
    await harness.advance(LONGEST_TTL)  # of the others nothing is known but what is seen
    assert (await harness.leases.forget("", 3600.0)).count == len(WHOLLY)
    assert await harness.leases.all() == []
    for how, grant in grants.items():
        assert (await harness.grant(how, "bob")).term > grant.term


def _outlast_a_millisecond(line: Any) -> None:
    """Where all that is on record of a term was destroyed, only the server's clock is left."""
    seconds, micros = line.time()
    while line.time() < (seconds, micros + 1_000):
        pass


async def test_terms_grow_and_stay_exact(harness: RedisHarness) -> None:
    line, terms = harness.lines[0], [0]
    for value in TEXTS:
        for holder in ("ann", "bob"):
            terms.append((await harness.grant("job", holder, fenced=True)).term)
            line.hset(_key(harness, "job"), "term", value)
            line.hset(f"tenure:{{{harness.namespace}}}:server", "term", value)
            assert await harness.leases.evict("job", "to go on") is not None
            _outlast_a_millisecond(line)
        assert terms[-1] > terms[-2] > 0, value
        assert terms[-1] < 2**52, "few are left"


async def test_floor_that_nobody_would_believe_is_refused(harness: RedisHarness) -> None:
    """What was granted is believed, so that the next term is above it."""
    now = int((await harness.backend.now()).timestamp() * 1000)
    years = 366 * 86_400 * 1_000
    before = await harness.grant("job", "ann", fenced=True)
    for floor in (now + 501 * years, 9 * 10**15, 2**53 - 1, 2**53):
        with pytest.raises(StoreError, match=f"would have to be above {floor}, .* delete the row"):
            await harness.grant("job", "ann", fenced=True, floor=floor)
        assert await harness.leases.renew([before]) == {before}
    high = await harness.grant("job", "ann", fenced=True, floor=now + 499 * years)
    assert high.term > now + 499 * years
    await harness.leases.release(high)
    harness.jump(-86_400.0)
    assert (await harness.grant("job", "bob", fenced=True)).term == high.term + 1
    assert (await harness.grant("other", "bob", fenced=True)).term == high.term + 2


async def test_own_name_is_given_back_if_its_record_cannot_be_renewed(
    harness: RedisHarness,
) -> None:
    """A node would be without its presence for as long as its record says nothing."""
    for how in ("term='abc'", "no term", "no holder", "a string"):
        mine = await harness.grant("tenure/node/ann", "ann")
        FATAL[how](harness.lines[0], _key(harness, "tenure/node/ann"))
        assert (await harness.grant("tenure/node/ann", "ann")).term > mine.term, how


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("key", ["leases", "history", "history:locks", "server"])
async def test_other_keys_of_another_type(harness: RedisHarness, key: str, kind: str) -> None:
    grant = await harness.grant("job", "ann")
    own = await harness.grant("tenure/x", "ann", fenced=True)
    retype(harness.lines[0], f"tenure:{{{harness.namespace}}}:{key}", kind)
    assert await harness.leases.renew([grant, own]) == {grant, own}
    assert {record.name for record in await harness.leases.all()} == {"job", "tenure/x"}
    retype(harness.lines[0], f"tenure:{{{harness.namespace}}}:{key}", kind)
    await harness.leases.history()
    await harness.forget_lines(0.0)
    await harness.leases.forget("", 0.0)
    assert await harness.leases.release(grant)
    assert await harness.leases.release(own)
    assert (await harness.grant("tenure/x", "bob", fenced=True)).term > own.term
    retype(harness.lines[0], f"tenure:{{{harness.namespace}}}:{key}", kind)
    await harness.leases.acquire("job", harness.holder("bob"), harness.ttl)  # it may have to wait
    await harness.advance(harness.ttl * 1.1)
    assert (await harness.grant("job", "bob")).term > grant.term


async def test_lines_of_history_that_are_none(harness: RedisHarness) -> None:
    await harness.leases.release(await harness.grant("job", "ann"), "done")
    key = f"tenure:{{{harness.namespace}}}:history:locks"
    harness.lines[0].rpush(key, *TEXTS)
    harness.lines[0].lpush(key, *TEXTS, '{"name": "job"}', '{"name": "job", "term": {}}')
    lines = await harness.leases.history("job")
    assert "done" in [line.end for line in lines]
    await harness.advance(1.0)
    await harness.forget_lines(0.5, limit=1_000)
    assert [line.end for line in await harness.leases.history("job")] == []


async def test_names_that_are_not_utf_8(harness: RedisHarness) -> None:
    harness.lines[0].sadd(f"tenure:{{{harness.namespace}}}:leases", *(v for v in TEXTS if v))
    key = f"tenure:{{{harness.namespace}}}:lease:".encode() + b"\xff\xfe\x00"
    harness.lines[0].hset(key, mapping={"holder": "nobody"})
    [bad] = await harness.leases.all()
    assert await harness.leases.read(bad.name) is not None
    assert await harness.leases.evict(bad.name, "not a name") is not None
    await harness.advance(1.0)
    await harness.leases.forget("", 0.5)
    assert await harness.leases.all() == []


async def test_doctor_names_the_record_and_the_remedy(
    harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "MOST_NAMED", 1_000)
    grants = await _damaged(harness, MENDABLE | FATAL)
    found = await _diagnose(harness)
    assert {finding.severity for finding in found} == {Severity.PROBLEM}
    whole = _not_to_be_seen(grants)
    for how in grants.keys() - whole:
        [told] = [finding for finding in found if repr(how) in finding.text]
        assert f"evict {quoted(how)} --url redis://" in (told.remedy or "")
    assert len(found) == len(grants) - len(whole)


@pytest.mark.parametrize("key", ["leases", "history", "history:locks", "server"])
async def test_doctor_names_other_keys(harness: RedisHarness, key: str) -> None:
    await harness.grant("job", "ann")
    [good] = await _diagnose(harness)
    assert (good.severity, good.text) == (Severity.OK, "1 lease, none damaged")
    retype(harness.lines[0], f"tenure:{{{harness.namespace}}}:{key}", "string")
    found = await _diagnose(harness)
    assert any(f"}}:{key} (" in finding.text for finding in found), found
    assert all(finding.remedy for finding in found)


async def _diagnose(harness: RedisHarness) -> list[Any]:
    backend = RedisBackend(harness.url, namespace=harness.namespace, clock=harness.clock)
    try:
        return [f for f in await backend.diagnose() if f.check == "Redis records"]
    finally:
        await backend.close()


async def test_doctor_finds_leases_that_are_on_no_list(harness: RedisHarness) -> None:
    await harness.grant("job", "ann")
    harness.lines[0].delete(f"tenure:{{{harness.namespace}}}:leases")
    [found] = await _diagnose(harness)
    assert "not on the list of names" in found.text
    assert "1 in all: 'job'" in found.text
    assert found.remedy is not None
    assert "evict job" in found.remedy
    assert await harness.leases.evict("job", "on no list") is not None
    assert [record.name for record in await harness.leases.all()] == ["job"]
