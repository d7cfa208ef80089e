"""Events as CloudEvents 1.0: structured (one JSON text), or binary (attributes beside the data).

Extensions: `partitionkey` is the key, `sequence` the position in the log, padded because it is
compared as text, `traceparent` the trace; `keynumber` is ours and counts the events of a key.
"""

from __future__ import annotations

import json
from datetime import UTC

from tenure.model import LoggedEvent

STRUCTURED = "application/cloudevents+json"
DATA = "application/json"
_NAMES = (
    *("specversion", "id", "source", "type", "subject"),
    *("time", "partitionkey", "sequence", "keynumber", "traceparent"),
)
_BINARY = (*(f"ce_{name}" for name in _NAMES), "content-type")


def attributes(event: LoggedEvent) -> dict[str, str]:
    """All that describes the event, by the names that CloudEvents gives them."""
    named = zip(_NAMES, _values(event), strict=True)
    return {name: value for name, value in named if value is not None}


def _values(event: LoggedEvent) -> tuple[str | None, ...]:
    """In the order of their names. In one go, because a relay does this for each event."""
    key, time = event.key, event.time
    time = time if time.tzinfo is UTC else time.astimezone(UTC)
    return (
        *("1.0", event.id, event.source, event.type, event.subject),
        *(f"{time.isoformat()[:-6]}Z", key, f"{event.position:020d}"),
        None if key is None else str(event.key_number),
        event.traceparent,
    )


def structured(event: LoggedEvent) -> bytes:
    """As one JSON text, of the type `STRUCTURED`. The data is as it was stored, byte for byte."""
    described = json.dumps(
        {**attributes(event), "datacontenttype": DATA}, ensure_ascii=False, separators=(",", ":")
    )
    return f'{described[:-1]},"data":{event.data}}}'.encode()


def binary(event: LoggedEvent) -> dict[str, str]:
    """What goes beside the data, as the Kafka binding has it: `ce_id` and so on, `content-type`."""
    named = zip(_BINARY, (*_values(event), DATA), strict=True)
    return {name: value for name, value in named if value is not None}


def percent_encoded(value: str) -> str:
    """As the HTTP binding writes values: all that is not visible ASCII is encoded, and " and %."""
    return "".join(
        character if "!" <= character <= "~" and character not in '"%' else _encoded(character)
        for character in value
    )


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
