"""What the relay sends next, and what it may acknowledge. Pure: no I/O, no clock of its own.

The relay reads the log in order and remembers how far it came, as a cursor. An event that cannot
be delivered must not stop the others, so its **lane** is held: the cursor goes on, and a record
says where in the log that lane continues, after how many tries, when, and why. The events behind it
are not copied; they are read from the log when their turn comes. So memory stays flat however long
a sink is down, and first deliveries are in order in each lane.

- After its last try an event is parked: its lane stays held until an operator replays or drops it
  or, if `skip` is chosen, the event is listed as parked and its lane goes on.
- If nothing gets through at all, the sink is stalled: a few events of different lanes are tried,
  less and less often. That is a failure of the sink, and events that had no answer lose no try.
- A cursor or a lane is acknowledged only after the sink has confirmed what lies before it. A relay
  that dies in between sends some events again, with the same ids.

The relay repeats: `wants` → read → `add`, `add_lane` → `batch` → send → `settle` → store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from tenure.events.progress import DeliveryPolicy, Wanted
from tenure.events.sinks.base import Outcome, Outgoing, Verdict
from tenure.model import Acknowledgement, HeldLane, Lane, LoggedEvent, Parked

LONGEST_PAUSE = 3_600.0
"""However long a sink asks to be left alone."""
PROBE = 10
"""How many events are sent to a sink that is stalled."""
LANES_AT_ONCE = 50
LANE_BATCH = 50
SHORTEST_SEND = 0.05
"""In seconds: with less time than that no send begins."""


class Delivery:
    """How far a relay has come, and what it does next. All times are by the caller's clock."""

    def __init__(
        self,
        policy: DeliveryPolicy,
        lane_of: Callable[[LoggedEvent], Lane],
        *,
        cursor: int = 0,
        held: Iterable[HeldLane] = (),
        ended: str | None = None,
    ) -> None:
        self._policy = policy
        self._lane_of = lane_of
        self._cursor = cursor
        self._held = {each.lane: each for each in held}
        # Nothing is made for each event here: what lives as long as a batch and is made by the
        # thousand has Python's collector of garbage go through all that the process has.
        self._window: deque[LoggedEvent] = deque()
        self._settled: set[int] = set()
        """Positions in the window."""
        self._of_lanes: dict[Lane, list[LoggedEvent]] = {}
        self._late: dict[int, LoggedEvent] = {}
        self._former: dict[Lane, int] = {}
        """Lanes of a sink that this relay had before, which are kept until the cursor is there."""
        self._changed: dict[Lane, None] = {}
        self._parked: dict[int, Parked] = {}
        self._unparked: list[int] = []
        self._delivered = 0
        self._seen: dict[Lane, int] = {}
        """How much had been delivered when a held lane was last tried: more by now shows that the
        sink works, and that a lack of an answer is about the event."""
        self._stalls = 0
        self._resume = float("-inf")
        self.trouble = ended or ""
        """Why the sink is stalled, or has ended; empty if it is not."""
        self.ended = ended

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def held(self) -> dict[Lane, HeldLane]:
        return dict(self._held)

    @property
    def ready(self) -> int:
        """How many events were read and are not settled, or lie behind one that is not."""
        return len(self._window)

    @property
    def replaying(self) -> bool:
        """Are there parked events that are still to be sent again?"""
        return bool(self._late)

    # -- reading --------------------------------------------------------------------------------

    def wants(self, now: float) -> Wanted:
        """What to read before the next batch."""
        last = self._window[-1].position if self._window else self._cursor
        room = self._policy.window - len(self._window)
        if len(self._held) >= self._policy.most_lanes or self.ended is not None:
            room = 0
        lanes = islice(self._due(now), LANES_AT_ONCE)
        return Wanted(
            last,
            room,
            tuple((each, self._cursor, 1 if each.tries else LANE_BATCH) for each in lanes),
        )

    def add(self, events: Sequence[LoggedEvent]) -> None:
        """Events from the log, after those that were read before."""
        self._window.extend(events)

    def add_lane(self, lane: Lane, events: Sequence[LoggedEvent]) -> None:
        """The next events of a held lane; none if it has caught up with the cursor."""
        if not events:
            self._free(lane)
        elif self._lane_of(events[0]) != lane:
            self._rewind(lane)
        else:
            self._of_lanes[lane] = list(events)

    def add_parked(self, events: Iterable[LoggedEvent]) -> None:
        """Parked events that an operator wants to have sent again."""
        self._late |= {event.position: event for event in events}

    def next_look(self, now: float) -> float | None:
        """When there is something to send without anything new in the log; None: never."""
        if self.ended is not None:
            return None
        waiting = [each.due for each in self._held.values() if self._is_reachable(each)]
        waiting += [now] * (bool(self._late) or any(map(self._is_open, self._window)))
        return max(self._resume, min(waiting)) if waiting else None

    # -- sending --------------------------------------------------------------------------------

    def batch(self, now: float) -> list[Outgoing]:
        """What to send now, in this order; nothing while the sink is stalled or has ended."""
        if self.ended is not None or now < self._resume:
            return []
        candidates = self._candidates()
        if not self._stalls:
            return list(islice(candidates, self._policy.batch))
        # A few of different lanes: if one gets through, the sink is well.
        firsts: dict[Lane, Outgoing] = {}
        for outgoing in candidates:
            firsts.setdefault(self._lane_of(outgoing.event), outgoing)
            if len(firsts) == PROBE:
                break
        return list(firsts.values())

    def settle(
        self, batch: Sequence[Outgoing], outcomes: Sequence[Outcome], now: float
    ) -> Acknowledgement:
        """What became of the last batch, and so what is to be stored."""
        window = {event.position for event in self._window}
        delivered = Verdict.DELIVERED
        got_through = sum(outcome.verdict is delivered for outcome in outcomes)
        self._delivered += got_through
        stalled: list[Outcome] = []
        for outgoing, outcome in zip(batch, outcomes, strict=True):
            position = outgoing.event.position
            fresh = position in window and not outgoing.late
            if fresh and outcome.verdict is delivered:
                self._settled.add(position)  # as nearly all of them: this is `_settle` in short
                continue
            if outcome.verdict is Verdict.ENDED:
                self.ended = self.trouble = outcome.reason
            elif outgoing.late:
                self._settle_late(outgoing.event, outcome, got_through)
            else:
                self._settle(outgoing.event, outcome, fresh, got_through, now)
            failed = outcome.verdict in (Verdict.RETRY, Verdict.DOWN) and not got_through
            if outcome.verdict is Verdict.PAUSE or (failed and (fresh or outgoing.late)):
                stalled.append(outcome)
        self._stall(stalled, got_through, now)
        self._of_lanes.clear()
        self._advance()
        return self._acknowledge()

    # -- the rest -------------------------------------------------------------------------------

    def _due(self, now: float) -> Iterator[HeldLane]:
        if now >= self._resume and self.ended is None:
            for held in self._held.values():
                if held.due <= now and self._is_reachable(held) and held.lane not in self._of_lanes:
                    yield held

    def _is_reachable(self, held: HeldLane) -> bool:
        # Ahead of the cursor, a lane is still in the window, behind something that is stalled. If
        # its last event before the cursor was dropped, it is right behind it.
        return not held.parked and held.position <= self._cursor + 1

    def _is_open(self, event: LoggedEvent) -> bool:
        if event.position in self._settled:
            return False
        return not self._held or self._lane_of(event) not in self._held

    def _candidates(self) -> Iterator[Outgoing]:
        for event in self._late.values():
            yield Outgoing(event, late=True)
        # Half of a batch for those that were held, so that they do not hold up the others.
        behind = (event for events in self._of_lanes.values() for event in events)
        for event in islice(behind, max(1, self._policy.batch // 2)):
            yield Outgoing(event)
        yield from map(Outgoing, filter(self._is_open, self._window))

    def _settle(
        self,
        event: LoggedEvent,
        outcome: Outcome,
        fresh: bool,
        got_through: int,
        now: float,
    ) -> None:
        if outcome.verdict is Verdict.DELIVERED:
            self._pass(event, fresh, now)
            return
        lane = self._lane_of(event)
        held = replace(self._held.get(lane, HeldLane(lane, 0)), position=event.position)
        match outcome.verdict:
            case Verdict.REFUSED:
                self._park(replace(held, tries=held.tries + 1), event, outcome.reason, fresh, now)
            case Verdict.RETRY:
                self._count(held, event, outcome, fresh, now)
            case Verdict.DOWN if self._delivered > self._seen.get(
                lane, self._delivered - got_through
            ):
                self._count(held, event, outcome, fresh, now)
            case Verdict.DOWN | Verdict.PAUSE if not fresh:
                wait = _longer(self._policy.backoff.delay(held.tries, lane), outcome)
                self._hold(replace(held, due=now + wait, reason=outcome.reason))
            case _:
                pass  # it stays where it is

    def _settle_late(self, event: LoggedEvent, outcome: Outcome, got_through: int) -> None:
        failed = outcome.verdict in (Verdict.RETRY, Verdict.REFUSED)
        if outcome.verdict is Verdict.DELIVERED:
            self._unparked.append(event.position)
            del self._late[event.position]
        elif failed or (outcome.verdict is Verdict.DOWN and got_through):
            self._parked[event.position] = Parked(event.position, 1, outcome.reason)
            del self._late[event.position]

    def _count(
        self,
        held: HeldLane,
        event: LoggedEvent,
        outcome: Outcome,
        fresh: bool,
        now: float,
    ) -> None:
        """One of its tries is used up."""
        wait = _longer(self._policy.backoff.delay(held.tries, held.lane), outcome)
        tried = replace(held, tries=held.tries + 1, due=now + wait, reason=outcome.reason)
        if tried.tries >= self._policy.tries:
            self._park(tried, event, outcome.reason, fresh, now)
        else:
            self._hold(tried)

    def _park(
        self, held: HeldLane, event: LoggedEvent, reason: str, fresh: bool, now: float
    ) -> None:
        if self._policy.skip:
            self._parked[event.position] = Parked(event.position, held.tries, reason)
            self._pass(event, fresh, now)
        else:
            self._hold(replace(held, reason=reason, parked=True))

    def _pass(self, event: LoggedEvent, fresh: bool, now: float) -> None:
        """This one is settled: its lane goes on."""
        if fresh:
            self._settled.add(event.position)
            return
        lane = self._lane_of(event)
        if lane.single or event.position >= self._cursor:
            self._free(lane)  # what follows is in the window
        else:
            self._hold(HeldLane(lane, event.position + 1, due=now))

    def _hold(self, held: HeldLane) -> None:
        self._held[held.lane] = held
        self._changed[held.lane] = None
        self._seen[held.lane] = self._delivered

    def _free(self, lane: Lane) -> None:
        self._seen.pop(lane, None)
        if self._held.pop(lane, None) is not None:
            self._changed[lane] = None

    def _rewind(self, lane: Lane) -> None:
        """The relay had another sink, with other lanes. Begin again where this one was held: what
        the others had beyond that comes again. It stays in the store until that is done."""
        held = self._held.pop(lane)
        self._former[lane] = max(self._cursor, *self._former.values(), 0)
        self._cursor = min(self._cursor, held.position - 1)
        self._window.clear()
        self._settled.clear()

    def _stall(self, failures: Sequence[Outcome], got_through: int, now: float) -> None:
        pauses = [each for each in failures if each.verdict is Verdict.PAUSE]
        if got_through and not pauses:
            self._stalls, self.trouble = 0, ""
        elif failures:
            waits = [_longer(self._policy.stall.delay(self._stalls), each) for each in failures]
            self._stalls += 1
            self._resume = now + max(waits)
            self.trouble = failures[0].reason

    def _advance(self) -> None:
        while self._window and not self._is_open(self._window[0]):
            self._cursor = self._window.popleft().position
            self._settled.discard(self._cursor)
        for lane in [lane for lane, last in self._former.items() if last <= self._cursor]:
            del self._former[lane]
            self._changed[lane] = None

    def _acknowledge(self) -> Acknowledgement:
        changed, self._changed = self._changed, {}
        parked, self._parked = tuple(self._parked.values()), {}
        unparked, self._unparked = tuple(self._unparked), []
        return Acknowledgement(
            max(self._cursor, *self._former.values(), 0),
            tuple(self._held[lane] for lane in changed if lane in self._held),
            tuple(lane for lane in changed if lane not in self._held),
            parked,
            unparked,
            self.trouble,
            self.ended,
        )


def time_to_send(now: float, trusted_until: float, most: float, reserve: float) -> float:
    """How many seconds a send may take, so that it ends, and `reserve` is left to store the
    acknowledgement, before the lease can end. 0: do not begin."""
    seconds = min(most, trusted_until - now - reserve)
    return seconds if seconds >= SHORTEST_SEND else 0.0


def _longer(wait: float, outcome: Outcome) -> float:
    return max(wait, min(outcome.after or 0.0, LONGEST_PAUSE))
