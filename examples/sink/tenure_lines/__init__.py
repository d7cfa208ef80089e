"""Events as lines over TCP, by URLs such as lines://localhost:7000."""

from __future__ import annotations

import re
from collections.abc import Callable

from tenure import ConfigError
from tenure.events.sinks.base import Sink, SinkPlace, SinkScheme


def parse(place: SinkPlace) -> Callable[[], Sink]:
    """Check the URL, now; import and make the sink later."""
    found = re.fullmatch(r"lines://([A-Za-z0-9.-]+):([0-9]{1,5})", place.url)
    if found is None or not 0 < int(found[2]) < 65_536:
        raise ConfigError("a lines:// URL has a host and a port: lines://localhost:7000.")
    host, port = found[1], int(found[2])

    def make() -> Sink:
        from tenure_lines.sink import LinesSink

        return LinesSink(host, port)

    return make


SCHEME = SinkScheme(parse)
