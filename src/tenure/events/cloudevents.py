"""Events as CloudEvents 1.0: structured (one JSON text), or binary (attributes beside the data).

Extensions: `partitionkey` is the key, `sequence` the position in the log, padded because it is
compared as text, `traceparent` the trace; `keynumber` is ours and counts the events of a key.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache

from tenure.model import LoggedEvent

STRUCTURED = "application/cloudevents+json"
DATA = "application/json"
_KAFKA = "ce_"
"""The Kafka binding puts this before the names of attributes."""


def attributes(event: LoggedEvent) -> dict[str, str]:
    """All that describes the event, by the names that CloudEvents gives them."""
    return {name.removeprefix(_KAFKA): value for name, value in _described(event).items()}


def _described(event: LoggedEvent) -> dict[str, str]:
    """By the names of the Kafka binding, which is the quickest sink: it has them as they are."""
    key = event.key
    described = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": event.source,
        "ce_type": event.type,
        "ce_time": _written(event.time),
        "ce_sequence": f"{event.position:020d}",
    }
    if event.subject is not None:
        described["ce_subject"] = event.subject
    if key is not None:
        described["ce_partitionkey"] = key
        described["ce_keynumber"] = str(event.key_number)
    if event.traceparent is not None:
        described["ce_traceparent"] = event.traceparent
    return described


@lru_cache(maxsize=64)  # events of one transaction have the same time
def _written(time: datetime) -> str:
    return f"{time.astimezone(UTC).isoformat()[:-6]}Z"


def structured(event: LoggedEvent) -> bytes:
    """As one JSON text, of the type `STRUCTURED`. The data is as it was stored, byte for byte.

    `ValueError` if that is not JSON, because the row was edited: it could end this text and forge
    the event's id, which would be signed.
    """
    try:
        json.loads(event.data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    described = json.dumps(
        {**attributes(event), "datacontenttype": DATA}, ensure_ascii=False, separators=(",", ":")
    )
    return f'{described[:-1]},"data":{event.data}}}'.encode()


def binary(event: LoggedEvent) -> dict[str, str]:
    """What goes beside the data, as the Kafka binding has it: `ce_id` and so on, `content-type`."""
    described = _described(event)
    described["content-type"] = DATA
    return described


def percent_encoded(value: str) -> str:
    """As the HTTP binding writes values: all that is not visible ASCII is encoded, and " and %."""
    return "".join(
        character if "!" <= character <= "~" and character not in '"%' else _encoded(character)
        for character in value
    )


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
