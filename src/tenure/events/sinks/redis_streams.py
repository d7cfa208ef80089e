"""`redis-streams://`: events as entries of streams in Redis or Valkey, one stream for each topic.

    redis-streams://host:6379/0                       rediss-streams://… for TLS
    redis-streams+sentinel://host:26379/service       redis-streams+cluster://host:7000
    …#prefix=events:      the streams' names begin with this
    …#stream=events       all topics go into this one stream
    …#maxlen=100000       each stream keeps about so many entries

An entry's id is the event's position in the log. The server takes only growing ids, so a repeat, or
a relay that was frozen and wakes up, adds nothing. For the same reason nobody else may write to
these streams, and a stream as a whole keeps its order: it is one lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tenure.backends.shared.driver_calls import apart
from tenure.backends.urls import check_server, is_redis_database
from tenure.errors import ConfigError, StoreError
from tenure.events.cloudevents import binary
from tenure.events.sinks.base import (
    DELIVERED,
    UNTRIED,
    Lane,
    Outcome,
    Outgoing,
    Sink,
    SinkPlace,
    Verdict,
    nothing_sent,
)
from tenure.events.sinks.urls import SinkUrl, split
from tenure.model import LoggedEvent

if TYPE_CHECKING:
    from tenure.process.clock import Clock

FORM = "redis-streams://host:6379/0"
_FORMS = {
    "sentinel": "redis-streams+sentinel://host:26379/service/0",
    "cluster": "redis-streams+cluster://host:7000",
}
SCHEMES = ("redis-streams", "rediss-streams")
OPTIONS = ("maxlen", "prefix", "stream")
LEAST_KEPT = 1_000
HANG_UP_MOST = 1.0
CHARACTERS = 8_000_000
"""Of data that one call has at most, unless one event alone has more: in hundreds of megabytes the
server would not answer in time, each time again. The rest is sent next."""
_DOWN = ("OOM ", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "LOADING")


def parse(place: SinkPlace) -> Callable[[], Sink]:
    """Check the URL; what it returns makes the sink."""
    url = split(place.url, FORM, OPTIONS)
    plain = _plain(url)
    form = url.scheme.partition("+")[2]
    if not is_redis_database(form, url.path):
        raise ConfigError(
            f"{url.location}: the path is not the number of a database, as in"
            f" {_FORMS.get(form, FORM)}. #stream= or #prefix= name the streams."
        )
    check_server(plain)
    if url.option("stream") and url.option("prefix"):
        raise ConfigError(
            f"{url.location}: stream= puts all topics into one stream, and prefix= names one for"
            " each. Give one of the two."
        )
    maxlen = int(url.number("maxlen", 0, LEAST_KEPT, 10**12))
    return lambda: RedisStreamsSink(url, plain, maxlen, place.clock)


def _plain(url: SinkUrl) -> str:
    """The same as the URL of a server."""
    credentials = "" if url.credentials is None else f"{url.credentials}@"
    scheme = url.scheme.replace("-streams", "", 1)
    query = f"?{url.query}" if url.query else ""
    return f"{scheme}://{credentials}{url.hosts}{url.path}{query}"


class RedisStreamsSink:
    """Streams on a Redis or Valkey server, or in a cluster."""

    def __init__(self, url: SinkUrl, plain: str, maxlen: int, clock: Clock) -> None:
        try:
            from tenure.backends.redis import target
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{url.location} needs the package {error.name!r}: pip install 'tenure[redis]'"
            ) from error
        self._target = target.parse(plain)
        self._stream, self._prefix = url.option("stream"), url.option("prefix") or ""
        self._maxlen = str(maxlen or "")
        # At a time no more than the stream keeps: what was written has to be found when it is sent
        # again, or it would be taken for what others wrote. The rest is sent next.
        self._most = maxlen or None
        self._clock = clock
        self._client: Any = None
        self._script: Any = None
        self.location = f"{url.scheme}://{self._target.location.partition('://')[2]}"

    def lane(self, event: LoggedEvent) -> Lane:
        return Lane() if self._stream else Lane(event.topic)

    async def open(self) -> None:
        self._client = self._target.connect()
        text = files("tenure.events.sinks").joinpath("redis_streams.lua").read_text("utf-8")
        self._script = self._client.register_script(text)

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        from tenure.backends.redis.client import FAILURES

        if self._client is None:
            return nothing_sent(batch, Outcome(Verdict.DOWN, "this sink is closed"))
        until = self._clock.monotonic() + seconds
        streams: dict[str, list[int]] = {}
        for number, outgoing in enumerate(batch):
            name = self._stream or f"{self._prefix}{outgoing.event.topic}"
            streams.setdefault(name, []).append(number)
        outcomes = [UNTRIED] * len(batch)

        async def to_server(names: Sequence[str]) -> None:
            for name in names:
                left = until - self._clock.monotonic()
                numbers = _first(streams[name][: self._most], batch)
                found = await self._append(name, [batch[number] for number in numbers], left)
                for number, outcome in zip(numbers, found, strict=True):
                    outcomes[number] = outcome
                if any(outcome.verdict is Verdict.DOWN for outcome in found):
                    return  # the other streams are on the same server

        try:
            servers = await apart(self._by_server(streams), seconds)
        except TimeoutError:
            return nothing_sent(batch, self._silent())
        except FAILURES as error:
            return nothing_sent(batch, _failure(error))
        async with asyncio.TaskGroup() as group:
            for names in servers:
                group.create_task(to_server(names))
        return outcomes

    async def close(self) -> None:
        from tenure.backends.redis.client import close

        client, self._client = self._client, None
        if client is not None:
            await close(client)

    async def _by_server(self, streams: Iterable[str]) -> list[list[str]]:
        """The streams that are on the same server. In a cluster, one that is down or silent holds
        up its own only."""
        if self._target.kind != "cluster":
            return [list(streams)]
        await self._client.initialize()
        servers: dict[str, list[str]] = {}
        for stream in streams:
            servers.setdefault(self._client.get_node_from_key(stream).name, []).append(stream)
        return list(servers.values())

    async def _append(
        self, stream: str, batch: Sequence[Outgoing], seconds: float
    ) -> list[Outcome]:
        from tenure.backends.redis.client import FAILURES

        if seconds <= 0:
            return [UNTRIED] * len(batch)
        words = [word for outgoing in batch for word in _words(outgoing)]
        try:
            answers = await apart(self._script(keys=[stream], args=[self._maxlen, *words]), seconds)
        except TimeoutError:
            return nothing_sent(batch, self._silent())
        except FAILURES as error:
            return nothing_sent(batch, _failure(error))
        if any(answer.startswith("error READONLY") for answer in answers):
            await self._hang_up()
        outcomes = [self._outcome(stream, answer) for answer in answers]
        return outcomes + [UNTRIED] * (len(batch) - len(outcomes))

    async def _hang_up(self) -> None:
        """A former master keeps its connections. Its name may lead to the new one by now."""
        pool = getattr(self._client, "connection_pool", None)  # a cluster says itself who has what
        if pool is not None:
            with suppress(Exception):  # they are given up in any case
                await apart(pool.disconnect(), HANG_UP_MOST)

    def _silent(self) -> Outcome:
        return Outcome(Verdict.DOWN, f"{self.location} did not answer in time")

    def _outcome(self, stream: str, answer: str) -> Outcome:
        if answer in ("added", "repeat"):
            return DELIVERED
        if answer == "taken":
            return Outcome(
                Verdict.RETRY,
                f"the stream {stream!r} already has entries up to this position or beyond, and this"
                " event is not among them. Either others write to the stream, or the log was"
                " restored and counts again from an earlier position. Give Tenure a stream of its"
                " own: #prefix=… or #stream=….",
            )
        text = answer.removeprefix("error ")
        verdict = Verdict.DOWN if text.startswith(_DOWN) else Verdict.RETRY
        return Outcome(verdict, f"the stream {stream!r}: {text}")


def _first(numbers: list[int], batch: Sequence[Outgoing]) -> list[int]:
    """Those of them that one call can have."""
    size = 0
    for count, number in enumerate(numbers):
        size += len(batch[number].event.data)
        if size > CHARACTERS and count:
            return numbers[:count]
    return numbers


def _failure(error: Exception) -> Outcome:
    """What the driver raised, told without secrets. A server that takes nothing is down."""
    from tenure.backends.redis.client import translate

    try:
        translate(error)
    except StoreError as told:
        return Outcome(Verdict.DOWN, str(told))


def _words(outgoing: Outgoing) -> list[str]:
    event = outgoing.event
    fields = {
        **binary(event),
        **{f"header_{name}": value for name, value in event.headers.items()},
        "data": event.data,
    }
    pairs = [word for pair in fields.items() for word in pair]
    late = "1" if outgoing.late else ""
    return [str(event.position), event.id, late, str(len(pairs)), *pairs]
