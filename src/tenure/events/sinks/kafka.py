"""`kafka://`: events as records of Kafka topics, by librdkafka's idempotent producer.

    kafka://host:9092,host2:9092            the topics are the events' own
    kafka://user:password@host:9092         SASL PLAIN over TLS, unless the settings say otherwise
    …?security.protocol=SSL&ssl.ca.location=/path/ca.pem      librdkafka's settings
    …#prefix=tenure.                        the topics' names begin with this
    …#topic=events                          all events go into this one topic

A record is a CloudEvent in binary mode: attributes as headers, the data as the value, the event's
key as the record's key. Keys go to the partitions to which Java's producers put them.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tenure.errors import ConfigError
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
    by_key,
    kept_in_order,
    nothing_sent,
)
from tenure.events.sinks.urls import SinkUrl, split
from tenure.model import LoggedEvent
from tenure.process.threads import Threads

if TYPE_CHECKING:
    from tenure.process.clock import Clock

FORM = "kafka://host:9092"
OPTIONS = ("prefix", "topic")
SLICE = 0.1
"""For so many seconds at a time the producer is waited for: then a cancelled call is noticed."""
FIXED: Mapping[str, object] = {
    "enable.idempotence": True,
    "acks": "all",
    # A failure that would leave a gap ends the producer, before what follows is written.
    "enable.gapless.guarantee": True,
    "partitioner": "murmur2_random",
    # Records expire one by one, so that 1, 4, 5 can land. Our own deadline always comes first.
    "message.timeout.ms": 300_000,
}
"""What the promises depend on."""
DEFAULTS: Mapping[str, object] = {
    "client.id": "tenure",
    # Not linger.ms=0: `flush` sends at once anyway, and many small requests cost twice the CPU.
    "topic.metadata.propagation.max.ms": 5_000,
    # It connects to one more broker in half of this time: with its usual 100 a relay that takes
    # over waits that long for its first brokers. After failures the time doubles as ever.
    "reconnect.backoff.ms": 20,
}
_TAKEN = {*FIXED, "bootstrap.servers", "metadata.broker.list", "transactional.id"}
_TAKEN |= {"request.required.acks", "delivery.timeout.ms", "max.in.flight"}
_TAKEN |= {"max.in.flight.requests.per.connection", "message.send.max.retries", "retries"}
_RUNS_CODE = {"plugin.library.paths", "ssl.engine.location", "sasl.kerberos.kinit.cmd"}
"""They load a library or run a command. A URL may come from someone who may not do that here."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_log = logging.getLogger("tenure.sinks.kafka")


def parse(place: SinkPlace) -> Callable[[], Sink]:
    """Check the URL; what it returns makes the sink."""
    url = split(place.url, FORM, OPTIONS)
    if url.scheme != "kafka" or url.path.strip("/"):
        raise ConfigError(
            f"{url.location}: the form is {FORM}, without a path. Topics are the events' own;"
            " #topic=… or #prefix=… changes that."
        )
    if url.option("topic") and url.option("prefix"):
        raise ConfigError(
            f"{url.location}: topic= puts all events into one topic, and prefix= names one for"
            " each. Give one of the two."
        )
    for name in OPTIONS:
        if not _TOPIC.fullmatch(url.option(name) or "x"):
            raise ConfigError(
                f"{url.location}: {name}= has characters that a topic's name cannot have. Use"
                " only ASCII letters, digits, dots, hyphens and underscores."
            )
    settings = _settings(url)
    return lambda: KafkaSink(url, settings, place.clock)


class KafkaSink:
    """Topics in Kafka. The producer works on a thread of its own."""

    def __init__(self, url: SinkUrl, settings: Mapping[str, object], clock: Clock) -> None:
        try:
            import confluent_kafka
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{url.location} needs the package {error.name!r}: pip install 'tenure[kafka]'"
            ) from error
        self._driver: Any = confluent_kafka
        self._settings = settings
        self._topic, self._prefix = url.option("topic"), url.option("prefix") or ""
        self._clock = clock
        self._producer: Any = None
        self._reports = _Reports()
        """Of this producer."""
        self._thread: Threads | None = None
        self._last_error = ""
        self.location = url.location

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        self._producer = self._make()
        self._thread = Threads("tenure-kafka")

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        if self._thread is None:
            return nothing_sent(batch, Outcome(Verdict.DOWN, "this sink is closed"))
        over = threading.Event()
        try:
            return await self._thread.call(
                self._send, batch, self._clock.monotonic() + seconds, over
            )
        finally:
            over.set()

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.call(self._discard)
            thread.close()

    # -- on the thread --------------------------------------------------------------------------

    def _send(
        self, batch: Sequence[Outgoing], until: float, over: threading.Event
    ) -> list[Outcome]:
        # It is used again only if all ends well: then no report is under way.
        producer, self._producer = self._producer or self._make(), None
        self._last_error = ""
        outcomes = [UNTRIED] * len(batch)
        reports = self._reports
        notes = reports.begin(len(batch))
        failed: set[Lane] = set()
        produced = []
        for number, outgoing in enumerate(batch):
            event = outgoing.event
            if over.is_set() or (failed and self.lane(event) in failed):
                continue
            problem = self._produce(producer, event, notes[number])
            if problem is None:
                produced.append(number)
            else:
                outcomes[number] = problem
                failed.add(self.lane(event))
        self._flush(producer, until, over)
        if all(reports.confirmed):
            self._producer = producer
            return [DELIVERED] * len(batch)
        is_well = True
        for number in produced:
            if reports.confirmed[number]:
                outcomes[number] = DELIVERED
                continue
            is_well = False
            # What has no report may have been written all the same.
            error = reports.errors.get(number)
            outcomes[number] = self._unconfirmed() if error is None else self._judged(error)
        # One that has failed is thrown away: a new one goes on after what was confirmed.
        if is_well:
            self._producer = producer
        return kept_in_order([self.lane(outgoing.event) for outgoing in batch], outcomes)

    def _produce(
        self, producer: Any, event: LoggedEvent, note: Callable[[Any, Any], None]
    ) -> Outcome | None:
        """Hand it to the producer, which notes its outcome later. What it refuses is told now."""
        described = binary(event)
        try:
            producer.produce(
                self._topic or f"{self._prefix}{event.topic}",
                value=event.data,
                key=event.key,
                headers={**event.headers, **described} if event.headers else described,
                on_delivery=note,
            )
        except BufferError:
            return UNTRIED  # its queue is full: the rest comes with a later batch
        except self._driver.KafkaException as error:
            if error.args[0].code() != self._driver.KafkaError.MSG_SIZE_TOO_LARGE:
                return self._judged(error.args[0])
            # Of this very record; a broker would say it of all that it was sent together with.
            size = len(event.data.encode())
            return Outcome(
                Verdict.REFUSED,
                f"{self.location}: the event has {size:,} bytes of data, and that is more than"
                " message.max.bytes allows. Raise it, here after the ? and for the topic",
            )
        return None

    def _flush(self, producer: Any, until: float, over: threading.Event) -> None:
        """Wait for what was produced. What is not confirmed in time is given up."""
        try:
            while len(producer) and not over.is_set():
                left = until - self._clock.monotonic()
                if left <= 0:
                    break
                producer.flush(min(left, SLICE))
            if len(producer):
                producer.purge()
                producer.flush(SLICE)
        except self._driver.KafkaException as error:
            # Fatal for this producer, as purging what is in flight is: it would leave a gap.
            self._last_error = self._last_error or error.args[0].str()

    def _unconfirmed(self) -> Outcome:
        why = self._last_error or "no broker answered"
        return Outcome(Verdict.DOWN, f"{self.location} did not confirm in time: {why}")

    def _judged(self, error: Any) -> Outcome:
        codes, code = self._driver.KafkaError, error.code()
        if code in (codes._PURGE_QUEUE, codes._PURGE_INFLIGHT, codes._MSG_TIMED_OUT):
            return self._unconfirmed()
        text = f"{self.location}: {error.str()}"
        if code in (codes._UNKNOWN_TOPIC, codes.UNKNOWN_TOPIC_OR_PART):
            return Outcome(Verdict.RETRY, f"{text}. Create the topic")
        lost = error.fatal() or error.retriable() or code in (codes._FATAL, codes._TRANSPORT)
        return Outcome(Verdict.DOWN if lost else Verdict.RETRY, text)

    def _make(self) -> Any:
        settings = {**DEFAULTS, **self._settings, **FIXED, "error_cb": self._hear}
        problem = ""
        self._reports = _Reports()
        try:
            return self._driver.Producer(settings, logger=_Quiet())
        except self._driver.KafkaException as error:
            # It repeats values, which may be secret. Only a name is certain not to be.
            named = re.search(r'configuration property: "([a-z.]+)"', str(error))
            problem = f"it does not know {named[1]!r}" if named else "one of them has a wrong value"
        raise ConfigError(
            f"{self.location}: librdkafka does not take the settings after the ?: {problem}. Its"
            " documentation, CONFIGURATION.md, lists them."
        )

    def _hear(self, error: Any) -> None:
        self._last_error = error.str()

    def _discard(self) -> None:
        self._producer = None


class _Reports:
    """What became of each record of a batch. Nothing is made for each: what is made by the thousand
    and lives as long as a batch has Python's collector of garbage go through the whole process."""

    def __init__(self) -> None:
        self.confirmed = bytearray()
        self.errors: dict[int, Any] = {}
        """Both by number in the batch."""
        self._notes: list[Callable[[Any, Any], None]] = []

    def begin(self, count: int) -> Sequence[Callable[[Any, Any], None]]:
        """Forget the batch before. Returns what the producer is to call for each record."""
        self.confirmed = bytearray(count)
        self.errors = {}
        self._notes += [partial(self._note, each) for each in range(len(self._notes), count)]
        return self._notes

    def _note(self, number: int, error: Any, _: object) -> None:
        if error is None:
            self.confirmed[number] = 1
        else:
            self.errors[number] = error


class _Quiet:
    """librdkafka's own messages are for debugging: outcomes say what is wrong. What it calls fatal
    is only the end of a producer that we throw away."""

    def log(self, level: int, text: str, *args: object) -> None:
        _log.debug(text, *args)


def _settings(url: SinkUrl) -> dict[str, object]:
    settings: dict[str, object] = {"bootstrap.servers": url.hosts}
    if url.credentials is not None:
        user, _, password = url.credentials.partition(":")
        settings |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": unquote(user),
            "sasl.password": unquote(password),
        }
    for pair in filter(None, url.query.split("&")):
        name, given, value = pair.partition("=")
        if not re.fullmatch(r"[a-z0-9._]{1,80}", name) or not given:
            raise ConfigError(
                f"{url.location}: after the ? come librdkafka's settings, as name=value separated"
                " by &; what is there has another form. Write = and & in a value as %3D and %26."
            )
        if name in _TAKEN:
            raise ConfigError(
                f"{url.location}: {name} is set by Tenure, whose promises depend on it. Leave it"
                " out."
            )
        if name in _RUNS_CODE:
            raise ConfigError(
                f"{url.location}: {name} would run other code in this process, and that is not for"
                " a URL to say. Leave it out."
            )
        settings[name] = unquote(value)
    return settings
