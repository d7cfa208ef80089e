"""The contract of sinks, for the tests of those who write one. Needs pytest and pytest-asyncio.

Subclass `SinkHarness` for your server, and `SinkContract` with a fixture `harness` that yields one.
Each clause is a sentence of `tenure.events.sinks.base`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.events.cloudevents import attributes
from tenure.events.sinks.base import Outcome, Outgoing, Sink, Verdict
from tenure.model import LoggedEvent

PATIENCE = 20.0
"""In seconds: for a sink that is well."""
BRIEF = 1.0
"""For one that does not answer."""
SOME_SILENT = 4.0
"""For one of which a part does not answer."""
MOMENT = 2.0
"""How much later than it was told a send may return, on a busy machine."""
TIME = datetime(2026, 11, 16, 12, 30, 15, 123456, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Received:
    """An event as it arrived, as those who receive it see it."""

    attributes: Mapping[str, str]
    """Of the CloudEvent, without `datacontenttype`."""
    data: Any
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.attributes["id"]


class SinkHarness(ABC):
    """A server of your own with nothing in it, and the means to disturb it."""

    secrets: Sequence[str] = ()
    """Texts in the URL that must never be shown."""

    @abstractmethod
    def make(self) -> Sink:
        """A sink for this server, not open yet."""

    @abstractmethod
    async def received(self) -> list[Received]:
        """All that has arrived so far: in each lane in the order of arrival, repeats included."""

    @abstractmethod
    async def freeze(self) -> None:
        """From now on the server answers nothing."""

    @abstractmethod
    async def thaw(self) -> None:
        """The server goes on. What it was sent meanwhile may arrive now."""

    async def stop(self) -> None:
        """From now on nothing listens at the server's address."""
        await self.freeze()

    async def start(self) -> None:
        """It listens again, with all that it had received."""
        await self.thaw()

    async def freeze_some(self, events: Sequence[LoggedEvent]) -> Collection[LoggedEvent] | None:
        """From now on the server answers to only some of these, of different lanes. Returns those
        to which it does not answer, whole lanes; None if it cannot do that."""
        return None

    def unacceptable(self, event: LoggedEvent) -> LoggedEvent | None:
        """The same event, changed so that the server takes neither it nor, without answering that
        it is down, tells it from others; None if it takes everything."""
        return None


def event(position: int, key: str | None = "account-7", **changes: Any) -> LoggedEvent:
    """An event as the log has it."""
    made = LoggedEvent(
        id=f"event-{position}",
        topic="ledger",
        type="MonthEnded",
        source="/tenure/contract",
        subject="month-end",
        time=TIME,
        data=json.dumps({"number": position}),
        key=key,
        headers={},
        position=position,
        key_number=0 if key is None else position,
        traceparent=None,
        recorded_at=TIME,
    )
    return replace(made, **changes)


class SinkContract:
    """What every sink does."""

    async def test_what_is_delivered_arrives_as_it_is(self, harness: SinkHarness) -> None:
        sent = [
            event(
                1,
                key="käse & brot/7 %",
                subject='Grüße, "x"',
                data='{"text":"äöü\\n\\u0000☃","number":12345678901234567890,"list":[null,1.5]}',
                headers={"x-tenant": "acme", "Region.eu_1": "Köln 50%"},
                traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            ),
            event(2, key=None, subject=None, data="null"),
        ]
        given = deepcopy(sent)
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, given)) == [Verdict.DELIVERED] * 2
        assert given == sent, "the sink has changed an event"
        arrived = {each.id: each for each in await harness.received()}
        assert len(arrived) == len(sent)
        for each in sent:
            assert dict(arrived[each.id].attributes) == attributes(each)
            assert arrived[each.id].data == json.loads(each.data)
            assert dict(arrived[each.id].headers) == dict(each.headers)

    async def test_each_lane_arrives_in_its_order(self, harness: SinkHarness) -> None:
        keys = ["a", "b", None, "c", "a", "a"]
        sent = [event(n, key=keys[n % len(keys)]) for n in range(1, 61)]
        async with opened(harness) as sink:
            for part in (sent[:50], sent[50:]):
                outcomes = await deliver(sink, part)
                assert verdicts(outcomes) == [Verdict.DELIVERED] * len(part)
            arrived = [each.id for each in await harness.received()]
            assert sorted(arrived) == sorted(each.id for each in sent)
            assert first_arrivals(sink, sent, arrived) == in_lanes(sink, sent)

    async def test_no_events_have_no_outcomes(self, harness: SinkHarness) -> None:
        async with opened(harness) as sink:
            assert await sink.send([], PATIENCE) == []

    async def test_an_event_that_is_sent_again_is_delivered_under_its_id(
        self, harness: SinkHarness
    ) -> None:
        sent = [event(n) for n in range(1, 6)]
        async with opened(harness) as one, opened(harness) as other:
            assert verdicts(await deliver(one, sent)) == [Verdict.DELIVERED] * 5
            assert verdicts(await deliver(other, sent[2:])) == [Verdict.DELIVERED] * 3
            arrived = [each.id for each in await harness.received()]
            assert set(arrived) == {each.id for each in sent}
            assert first_arrivals(one, sent, arrived) == in_lanes(one, sent)

    async def test_a_late_event_is_delivered_though_later_ones_were(
        self, harness: SinkHarness
    ) -> None:
        """An operator replays it: `Outgoing.late`."""
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, [event(1), event(3)])) == [Verdict.DELIVERED] * 2
            outcomes = await sink.send([Outgoing(event(2), late=True)], PATIENCE)
            assert verdicts(outcomes) == [Verdict.DELIVERED]
            assert verdicts(await deliver(sink, [event(4)])) == [Verdict.DELIVERED]
        arrived = [each.id for each in await harness.received()]
        assert list(dict.fromkeys(arrived)) == ["event-1", "event-3", "event-2", "event-4"]

    async def test_it_opens_while_the_server_is_down(self, harness: SinkHarness) -> None:
        await harness.stop()
        async with opened(harness) as sink:
            await harness.start()
            assert verdicts(await deliver_at_last(sink, [event(1)])) == [Verdict.DELIVERED]

    async def test_a_server_that_is_down_is_an_outcome(self, harness: SinkHarness) -> None:
        sent = [event(n, key="ab"[n % 2]) for n in range(1, 7)]
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, sent[:2])) == [Verdict.DELIVERED] * 2
            await harness.stop()
            outcomes = await sink.send(outgoing(sent[2:]), BRIEF)
            assert set(verdicts(outcomes)) <= {Verdict.DOWN, Verdict.UNTRIED}
            assert outcomes[0].verdict is Verdict.DOWN
            assert outcomes[0].reason
            await harness.start()
            outcomes = await deliver_at_last(sink, sent[2:])
            assert verdicts(outcomes) == [Verdict.DELIVERED] * 4
            arrived = [each.id for each in await harness.received()]
            assert set(arrived) == {each.id for each in sent}
            assert first_arrivals(sink, sent, arrived) == in_lanes(sink, sent)

    async def test_a_send_returns_in_time(self, harness: SinkHarness) -> None:
        sent = [event(n, key="ab"[n % 2]) for n in range(1, 7)]
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, sent[:2])) == [Verdict.DELIVERED] * 2
            await harness.freeze()
            async with asyncio.timeout(BRIEF + MOMENT):
                outcomes = await sink.send(outgoing(sent[2:]), BRIEF)
            assert Verdict.DELIVERED not in verdicts(outcomes)
            await harness.thaw()
            outcomes = await deliver_at_last(sink, sent[2:])
            assert verdicts(outcomes) == [Verdict.DELIVERED] * 4
            arrived = [each.id for each in await harness.received()]
            assert set(arrived) == {each.id for each in sent}
            assert first_arrivals(sink, sent, arrived) == in_lanes(sink, sent)

    async def test_a_cancelled_send_ends_at_once(self, harness: SinkHarness) -> None:
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, [event(1)])) == [Verdict.DELIVERED]
            await harness.freeze()
            sending = asyncio.create_task(sink.send(outgoing([event(2)]), PATIENCE))
            done, _ = await asyncio.wait([sending], timeout=BRIEF / 2)
            assert not done, sending.result()
            sending.cancel()
            done, _ = await asyncio.wait([sending], timeout=MOMENT)
            assert done
            assert sending.cancelled()
            await harness.thaw()
            assert verdicts(await deliver_at_last(sink, [event(2)])) == [Verdict.DELIVERED]

    async def test_nothing_of_a_lane_is_sent_after_one_that_is_not_taken(
        self, harness: SinkHarness
    ) -> None:
        bad = harness.unacceptable(event(2, key="bad", topic="other"))
        if bad is None:
            pytest.skip("this server takes everything")
        follower = replace(bad, id="event-3", position=3, data="3")
        async with opened(harness) as sink:
            outcomes = await deliver(sink, [event(1), bad, follower, event(4)])
            assert outcomes[1].verdict in (Verdict.RETRY, Verdict.REFUSED)
            assert outcomes[1].reason
            assert outcomes[2].verdict is Verdict.UNTRIED
            assert [outcomes[0].verdict, outcomes[3].verdict] == [Verdict.DELIVERED] * 2
        assert {each.id for each in await harness.received()} == {"event-1", "event-4"}

    async def test_what_is_confirmed_is_delivered_though_other_lanes_get_no_answer(
        self, harness: SinkHarness
    ) -> None:
        def of_each_lane(first: int) -> list[LoggedEvent]:
            return [
                event(first + n, key=f"key-{n // 2}", topic=("ledger", "other")[n % 2])
                for n in range(12)
            ]

        lanes, sent = of_each_lane(1), of_each_lane(13) + of_each_lane(25)
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, lanes)) == [Verdict.DELIVERED] * 12
            silent = await harness.freeze_some(sent)
            if silent is None:
                pytest.skip("this server answers to all or to nobody")
            assert 0 < len(silent) < len(sent)
            outcomes = await sink.send(outgoing(sent), SOME_SILENT)
            failed: set[Any] = set()
            for each, outcome in zip(sent, outcomes, strict=True):
                lane = sink.lane(each)
                first = Verdict.UNTRIED if lane in failed else Verdict.DOWN
                assert outcome.verdict is (first if each in silent else Verdict.DELIVERED), each
                failed |= {lane} if each in silent else set()
            await harness.thaw()
            left = [each for each in sent if each in silent]
            outcomes = await deliver_at_last(sink, left)
            assert verdicts(outcomes) == [Verdict.DELIVERED] * len(left)
            arrived = [each.id for each in await harness.received()]
            assert first_arrivals(sink, lanes + sent, arrived) == in_lanes(sink, lanes + sent)

    async def test_nothing_secret_is_shown(self, harness: SinkHarness) -> None:
        async with opened(harness) as sink:
            await harness.stop()
            outcomes = await sink.send(outgoing([event(1)]), BRIEF)
            told = [sink.location, repr(sink), *(outcome.reason for outcome in outcomes)]
            assert all(each.isprintable() for each in told)
            for secret in harness.secrets:
                assert not any(secret in each for each in told)
            await harness.start()

    async def test_a_closed_sink_is_down(self, harness: SinkHarness) -> None:
        async with opened(harness) as sink:
            assert verdicts(await deliver(sink, [event(1)])) == [Verdict.DELIVERED]
        await sink.close()
        outcomes = await sink.send(outgoing([event(2), event(3)]), PATIENCE)
        assert outcomes[0].verdict is Verdict.DOWN
        assert Verdict.DELIVERED not in verdicts(outcomes)


@asynccontextmanager
async def opened(harness: SinkHarness) -> AsyncIterator[Sink]:
    sink = harness.make()
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


def outgoing(events: Iterable[LoggedEvent]) -> list[Outgoing]:
    return [Outgoing(each) for each in events]


async def deliver(sink: Sink, events: Iterable[LoggedEvent]) -> list[Outcome]:
    return await sink.send(outgoing(events), PATIENCE)


async def deliver_at_last(sink: Sink, events: Sequence[LoggedEvent]) -> list[Outcome]:
    """As the relay does it: again and again, each lane from where it came to. A server that has
    just been started or thawed may need a moment."""
    outcomes = [Outcome(Verdict.UNTRIED)] * len(events)
    async with asyncio.timeout(PATIENCE):
        while left := [n for n, each in enumerate(outcomes) if each.verdict != Verdict.DELIVERED]:
            for n, outcome in zip(
                left, await sink.send(outgoing(events[n] for n in left), BRIEF), strict=True
            ):
                outcomes[n] = outcome
    return outcomes


def verdicts(outcomes: Iterable[Outcome]) -> list[Verdict]:
    return [outcome.verdict for outcome in outcomes]


def in_lanes(sink: Sink, events: Iterable[LoggedEvent]) -> dict[Any, list[str]]:
    """By their lanes, in their order. Events without a lane have no order, so their lane is one."""
    lanes: dict[Any, list[str]] = {}
    for each in events:
        lanes.setdefault(sink.lane(each), []).append(each.id)
    return lanes


def first_arrivals(
    sink: Sink, events: Sequence[LoggedEvent], arrived: Iterable[str]
) -> dict[Any, list[str]]:
    """The same of those that arrived, each as it came first."""
    by_id = {each.id: each for each in events}
    return in_lanes(sink, [by_id[each] for each in dict.fromkeys(arrived)])
