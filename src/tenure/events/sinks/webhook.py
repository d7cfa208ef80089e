"""`webhook+https://`: each event is a POST to a web service, signed by Standard Webhooks.

    webhook+https://host/path?query#secret=whsec_…      what follows the # is not sent
    …#secret_file=/run/secrets/hook     the secrets, one on each line
    …#secret=…&secret=…                 two while one replaces the other: each signs
    …&timeout=20&at_once=8              seconds for a request; how many at a time
    …&ca=/path/ca.pem                   a certificate authority of your own

The body is the event as a structured CloudEvent, so the signature covers its attributes too.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from tenure.errors import ConfigError
from tenure.events.cloudevents import STRUCTURED, percent_encoded, structured
from tenure.events.sinks.addresses import resolved
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
    nothing_sent,
)
from tenure.events.sinks.http import Answer, NoAnswer, Request, post
from tenure.events.sinks.signatures import MOST_SECRETS, secret, signed
from tenure.events.sinks.urls import SinkUrl, split
from tenure.model import LoggedEvent
from tenure.process.threads import Threads

FORM = "webhook+https://host/path#secret=whsec_…"
OPTIONS = ("at_once", "ca", "secret", "secret_file", "timeout")
SECRETS_MOST = 10_000
"""How many characters a file of secrets may have."""
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where requests go, and how."""

    url: SinkUrl
    host: str
    port: int
    timeout: float
    at_once: int
    allow_private: bool
    secrets: tuple[bytes, ...] = field(repr=False)

    @property
    def location(self) -> str:
        # The path may be a token, as many services have it.
        return f"{self.url.location}/…" if self.url.path.strip("/") else self.url.location


def parse(place: SinkPlace) -> Callable[[], Sink]:
    """Check the URL; what it returns makes the sink."""
    url = split(place.url, FORM, OPTIONS)
    if url.scheme not in ("webhook+https", "webhook+http"):
        raise ConfigError(f"write webhook+https://, not {url.scheme}://: {FORM}.")
    if url.scheme == "webhook+http" and not place.allow_http:
        raise ConfigError(
            f"{url.location}: over http:// anyone on the network can read the events. Write"
            " webhook+https://, or allow http if the network is yours alone."
        )
    if url.credentials is not None:
        raise ConfigError(
            f"{url.location}: a webhook takes no user and password. The receiver knows a request"
            " by its signature; if it wants a token, that is part of the path or the query."
        )
    where = _HOST.fullmatch(url.hosts)
    port = int(where["port"] or (443 if url.scheme == "webhook+https" else 80)) if where else 0
    if where is None or not 0 < port < 65_536:
        raise ConfigError(f"{url.location}: a webhook has one host, and a port below 65536.")
    webhook = Webhook(
        url,
        where["host"].strip("[]").lower(),
        port,
        url.number("timeout", 20, 1, 60),
        int(url.number("at_once", 8, 1, 100)),
        place.allow_private,
        _secrets(url),
    )
    return lambda: WebhookSink(webhook, place)


class WebhookSink:
    """A web service that takes one event with each request."""

    def __init__(self, webhook: Webhook, place: SinkPlace) -> None:
        self._webhook = webhook
        self._clock = place.clock
        self._tls: ssl.SSLContext | None = None
        self._resolvers = Threads("tenure-webhook", 4)  # daemons: resolving may hang
        self._is_open = False
        self.location = webhook.location
        self.patience = webhook.timeout

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        if self._webhook.url.scheme == "webhook+https":
            self._tls = _trust(self._webhook.url)
        self._is_open = True

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        if not self._is_open:
            return nothing_sent(batch, Outcome(Verdict.DOWN, "this sink is closed"))
        sending = _Sending(self, batch, self._clock.monotonic() + seconds)
        return await sending.outcomes(self._webhook.at_once)

    async def close(self) -> None:
        self._is_open = False
        self._resolvers.close()

    def seconds_left(self, until: float) -> float:
        return until - self._clock.monotonic()

    async def post(self, event: LoggedEvent, seconds: float) -> Outcome:
        """Try to deliver one event."""
        webhook, now = self._webhook, self._clock.now()
        try:
            body = structured(event)
        except ValueError as error:
            return Outcome(Verdict.REFUSED, f"the event's data is not JSON: {error}")
        seconds = min(seconds, webhook.timeout)
        request = Request(
            webhook.host,
            webhook.port,
            (webhook.url.path or "/") + (f"?{webhook.url.query}" if webhook.url.query else ""),
            _headers(event, body, now, webhook.secrets),
            body,
            self._tls,
        )
        try:
            until = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(until):
                addresses = await self._resolvers.call(
                    resolved, webhook.host, webhook.port, webhook.allow_private
                )
            answer = await post(request, addresses, until)
        except TimeoutError:
            return Outcome(Verdict.DOWN, f"{self.location} did not answer within {seconds:.3g} s")
        except (OSError, NoAnswer) as error:
            return Outcome(Verdict.DOWN, f"{self.location}: {_told(error)}")
        return _outcome(answer, self.location, now)


class _Sending:
    """One batch on its way: several lanes at a time, each in its order."""

    def __init__(self, sink: WebhookSink, batch: Sequence[Outgoing], until: float) -> None:
        self._sink = sink
        self._until = until
        self._batch = batch
        self._outcomes = [UNTRIED] * len(batch)
        self._over = False
        """Does the sink want a pause, or no more at all?"""
        self._slowest = 0.0
        """How many seconds a request has taken. None begins that would not have twice as long: cut
        off, it would be one of its event's tries, and arrive twice."""

    async def outcomes(self, at_once: int) -> list[Outcome]:
        lanes: dict[Lane, list[int]] = {}
        for number, outgoing in enumerate(self._batch):
            lanes.setdefault(self._sink.lane(outgoing.event), []).append(number)
        waiting = iter(lanes.values())
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(lanes))):
                group.create_task(self._take(waiting))
        return self._outcomes

    async def _take(self, waiting: Iterator[list[int]]) -> None:
        for numbers in waiting:  # shared: each lane is taken by one
            for number in numbers:
                left = self._sink.seconds_left(self._until)
                if self._over or left <= 2 * self._slowest:
                    return
                outcome = await self._sink.post(self._batch[number].event, left)
                self._outcomes[number] = outcome
                taken = left - self._sink.seconds_left(self._until)
                self._slowest = max(self._slowest, taken)
                self._over |= outcome.verdict in (Verdict.PAUSE, Verdict.ENDED)
                if outcome.verdict is not Verdict.DELIVERED:
                    break


def identity(event: LoggedEvent) -> str:
    """The event's id as `webhook-id`. Users choose ids, and dots separate what is signed: with one
    in it, the signature would also be that of another time and body."""
    return percent_encoded(event.id).replace(".", "%2E")


def _headers(
    event: LoggedEvent, body: bytes, now: datetime, keys: Sequence[bytes]
) -> Mapping[str, str]:
    return {
        "Content-Type": f"{STRUCTURED}; charset=utf-8",
        "User-Agent": "tenure",
        **signed(keys, identity(event), now, body),
        **{f"x-event-{name}": percent_encoded(value) for name, value in event.headers.items()},
    }


def _outcome(answer: Answer, location: str, now: datetime) -> Outcome:
    status, after = answer.status, _retry_after(answer.headers.get("retry-after", ""), now)
    if 200 <= status < 300:
        return DELIVERED
    reason = f"{location} answered {status}"
    if status == 410:
        return Outcome(Verdict.ENDED, f"{reason} (gone): it wants no more events")
    if 300 <= status < 400:
        return Outcome(
            Verdict.RETRY, f"{reason}: redirects are not followed. Give the address it leads to"
        )
    if status == 429 or (status == 503 and after is not None):
        return Outcome(Verdict.PAUSE, f"{reason}: it asks for a pause", after)
    if status in (502, 503, 504):
        return Outcome(Verdict.DOWN, f"{reason}: the service behind it is down", after)
    return Outcome(Verdict.RETRY, reason, after)


def _retry_after(text: str, now: datetime) -> float | None:
    """In seconds; it is said as a number of them, or as a date."""
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a zone
        return None


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {error.verify_message}. If it is from a CA of your"
            " own, name it: #ca=/path/ca.pem"
        )
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _trust(url: SinkUrl) -> ssl.SSLContext:
    file = url.option("ca")
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise ConfigError(
            f"{url.location}: ca= names {file!r}, which cannot be used:"
            f" {error.strerror or 'it has no certificates'}. It must be a file of certificates, as"
            " PEM."
        ) from error


def _secrets(url: SinkUrl) -> tuple[bytes, ...]:
    given = list(url.options.get("secret", ()))
    if (file := url.option("secret_file")) is not None:
        given += _lines(url, file)
    if not 1 <= len(given) <= MOST_SECRETS:
        raise ConfigError(
            f"{url.location}: a webhook needs one secret, or several while you replace it, up to"
            f" {MOST_SECRETS}; this URL has {len(given)}. Write #secret=whsec_… or"
            " #secret_file=/path, a file with one on each line."
        )
    return tuple(map(secret, given))


def _lines(url: SinkUrl, file: str) -> list[str]:
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(SECRETS_MOST)
    except OSError as error:
        raise ConfigError(
            f"{url.location}: secret_file= names {file!r}, which cannot be read: {error.strerror}."
        ) from error
    return text.split()
