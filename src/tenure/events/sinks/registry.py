"""From the URL of a sink to the sink. Drivers are imported when a sink is made."""

from __future__ import annotations

from collections.abc import Callable

from tenure.backends.urls import is_word
from tenure.errors import ConfigError
from tenure.events.sinks import kafka, redis_streams, webhook
from tenure.events.sinks.base import Sink, SinkPlace, SinkScheme
from tenure.events.sinks.urls import scheme_of

FORMS = f"{kafka.FORM}, {redis_streams.FORM} or {webhook.FORM}"
_SCHEMES = {
    "kafka": SinkScheme(kafka.parse),
    **dict.fromkeys(redis_streams.SCHEMES, SinkScheme(redis_streams.parse)),
    "webhook": SinkScheme(webhook.parse),
}
"""Tenure's own. Any other scheme is looked up among the installed packages (entry_points.py)."""


def parse(place: SinkPlace) -> Callable[[], Sink]:
    """Check a URL now, and return a function that makes its sink later."""
    name = scheme_of(place.url).partition("+")[0]
    if not name:
        raise ConfigError(f"what is given as the URL of a sink is not a URL. Known forms: {FORMS}.")
    return (_SCHEMES.get(name) or _outside(name)).parse(place)


def _outside(name: str) -> SinkScheme:
    from tenure.events.sinks import entry_points  # reads the metadata of all packages

    scheme = entry_points.find(name)
    if scheme is None:
        what = f"unknown sink {name!r}" if is_word(name) else "this URL's scheme is unknown"
        more = ", ".join(entry_points.installed())
        raise ConfigError(
            f"{what}. Known forms: {FORMS}." + (f" Other packages provide {more}." if more else "")
        )
    return scheme
