"""Values that a hand, a bug or an attacker could leave in a store: of every kind, by name.

Nothing here knows a store. Each takes the kinds that its columns or fields can hold:

    SQLite        `ANYTHING`, in any column: it keeps what it is given
    PostgreSQL    the kind of the column: `integers`, `FLOATS`, `texts`, `MOMENTS`
    Redis         `raw()`: all that it keeps are bytes

A name is short, has no spaces and says what the value is, for the name of a test and for a report.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator

Value = int | float | str | bytes | None

HUGE = 200_000
"""Characters of the longest text: more than a line, a message or a name ever has."""
NESTED = 100_000
"""More than any parser of JSON descends."""


def integers(bits: int = 64) -> dict[str, int]:
    """The ends of what a column of so many bits takes, and what is near them."""
    top = 2 ** (bits - 1)
    return {
        "zero": 0,
        "minus-one": -1,
        "highest": top - 1,
        "almost-highest": top - 2,
        "lowest": -top,
        "half": top // 2,
    }


FLOATS: dict[str, float] = {
    "zero-float": 0.0,
    "minus-zero": -0.0,
    "negative-float": -1.5,
    "fraction": 0.5,
    "tiny": 5e-324,
    "vast": 1e300,
    "infinite": float("inf"),
    "minus-infinite": float("-inf"),
    "not-a-number": float("nan"),
}

PLAIN: dict[str, str] = {
    "empty": "",
    "blank": " ",
    "word": "tomorrow",
    "number-in-words": "12abc",
    "number-as-text": "9223372036854775807",
    "vast-as-text": "1e300",
    "infinity-as-text": "inf",
    "nan-as-text": "nan",
    "true": "true",
    "quotes": """'"`$(id);--""",
    "newlines": "one\ntwo\r\n\tthree",
    "controls": "a\x01\x1b[2J\x1b]0;title\x07\x7f\x85\u2028b",
    "right-to-left": "\u202eabc\u2066\u200b",
    "beyond-the-plane": "\U0001f600" * 3,
    "percent": "%s %(name)s {name} {0}",
}
"""Texts that any store of texts takes."""

JSON: dict[str, str] = {
    "broken-json": "{",
    "cut-json": '{"a": [1, 2',
    "json-null": "null",
    "json-number": "7",
    "json-text": '"text"',
    "json-list": "[1, {}, null]",
    "json-pairs": '[["a", 1]]',
    "json-nan": '{"a": NaN, "b": Infinity}',
    "json-digits": '{"a": ' + "9" * 5_000 + "}",
    "json-twice": '{"a": 1, "a": 2}',
    "json-surrogate": '{"a": "\\ud800", "\\udfff": 1}',
    "json-nul": '{"a": "\\u0000"}',
    "json-lists-in-it": '{"app": [], "tasks": {}, "type": 1, "every": null, "digest": {}}',
    "deep-json": "[" * NESTED + "]" * NESTED,
    "deep-objects": '{"a":' * NESTED + "1" + "}" * NESTED,
    "open-json": "[" * NESTED,
}
"""Not JSON, or JSON of another shape than an object of plain values."""

LONG: dict[str, str] = {
    "huge": "x" * HUGE,
    "huge-words": "word " * (HUGE // 5),
    "no-index-takes-it": "".join(random.Random(1).choices(string.ascii_letters, k=6_000)),
    "huge-json": json.dumps({f"key {n}": "x" * 100 for n in range(HUGE // 110)}),
}

NUL: dict[str, str] = {"nul": "a\x00b", "only-nul": "\x00"}
"""PostgreSQL has no such texts."""

BYTES: dict[str, bytes] = {
    "no-bytes": b"",
    "nul-bytes": b"\x00" * 8,
    "high-bytes": b"\xff\xfe\x00\x01",
    "latin-1": '{"a": "ä"}'.encode("latin-1"),
    "cut-utf-8": "é".encode()[:1],
    "surrogate-bytes": b"\xed\xa0\x80",
    "overlong": b"\xc0\xaf",
    "bytes-of-json": b'{"a": 1}',
}
"""Most are not UTF-8."""

MOMENTS: dict[str, str] = {
    "never": "infinity",
    "always": "-infinity",
    "long-ago": "4713-01-01 00:00:00+00 BC",
    "year-zero": "0001-01-01 00:00:00+00 BC",
    "year-one": "0001-01-01 00:00:00+00",
    "the-epoch": "1970-01-01 00:00:00+00",
    "end-of-python": "9999-12-31 23:59:59.999999+00",
    "after-python": "10000-01-01 00:00:00+00",
    "end-of-postgres": "294276-12-31 23:59:59+00",
}
"""As PostgreSQL writes them."""


def texts() -> dict[str, str]:
    """What PostgreSQL takes in a column of texts."""
    return PLAIN | JSON | LONG


ANYTHING: dict[str, Value] = {
    "null": None,
    **integers(),
    **FLOATS,
    **texts(),
    **NUL,
    **BYTES,
}
"""What SQLite takes in any column. It stores NaN as NULL."""


def raw() -> dict[str, bytes]:
    """All of it as bytes, as Redis would have it."""
    found = {name: as_bytes(value) for name, value in ANYTHING.items() if value is not None}
    return found | {name: text.encode() for name, text in MOMENTS.items()}


def as_bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return ("" if value is None else str(value)).encode()


def spoiled(text: str | bytes, rng: random.Random) -> bytes:
    """A good value with an accident: cut short, doubled, or with bytes that were overwritten."""
    data = bytearray(text.encode() if isinstance(text, str) else text)
    match rng.randrange(4):
        case 0:
            del data[rng.randrange(len(data) + 1) :]
        case 1:
            data *= 2
        case 2:
            data.insert(rng.randrange(len(data) + 1), rng.randrange(256))
        case _:
            for _ in range(min(len(data), 1 + rng.randrange(4))):
                data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def dealt(rng: random.Random, values: dict[str, Value]) -> Iterator[tuple[str, Value]]:
    """For ever: all of them in a random order, then all of them in another."""
    while True:
        names = list(values)
        rng.shuffle(names)
        yield from ((name, values[name]) for name in names)
