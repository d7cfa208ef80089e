"""Text from outside, made safe to print: on one line, without control characters.

Names, reasons, hosts and errors come from users, other processes and rows that anyone may have
written. An escape sequence in them would command the terminal, a newline would forge a line of the
log, and a right-to-left mark would show a text that is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

LONGEST = 80
"""How many characters of a foreign value are shown."""
_MISREAD = set(" =\"'\\")
_ESCAPED = set('"\\')


def one_line(value: object) -> str:
    """As one line of a terminal or a log."""
    text = str(value)
    return text if text.isprintable() else "".join(map(_visible, text))


def lines(value: object) -> str:
    """The same of a text that has lines of its own, such as a traceback."""
    return "\n".join(map(one_line, re.split(r"\r?\n", str(value).replace("\t", "    "))))


def exception_line(error: str) -> str:
    """The line of a traceback that says what it was; the last line of what is no traceback.

    The message may have lines of its own. It begins at the first line after the last place in the
    code that is not indented.
    """
    said = [line for line in error.splitlines() if line.strip()]
    places = [n for n, line in enumerate(said) if re.match(r"\s+File \"", line)]
    if places:
        what = (line for line in said[places[-1] :] if not line[0].isspace())
        return next(what, said[-1]).strip()
    return said[-1].strip() if said else ""


def field(value: object) -> str:
    """As the value of a field in a line of logfmt: in quotes if it could pass for two, with escapes
    as in JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _rounded(value)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if text and text.isprintable() and not set(text) & _MISREAD:
        return text
    return (
        '"' + "".join(c if c.isprintable() and c not in _ESCAPED else _json(c) for c in text) + '"'
    )


def _rounded(number: float) -> str:
    """To thousandths, which are milliseconds of seconds; or to two digits, if it is less."""
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{number:.2g}" if number and text in ("0", "-0") else text


def _json(character: str) -> str:
    return json.dumps(character)[1:-1]


def continued(values: Iterable[object]) -> Iterator[str]:
    """The lines of those that have more than one, each marked as not a line of ours."""
    for value in values:
        if isinstance(value, str) and "\n" in value.strip():
            yield from (f"  | {line}".rstrip() for line in lines(value.strip()).split("\n"))


def brief(value: object) -> str:
    """The repr of a foreign value, shortened; works for anything, even a number of 5,000 digits."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is only to be named in an error
        return f"a {type(value).__qualname__} that cannot be shown"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 20]}…{text[-19:]}"


def nearest(word: str, known: Iterable[str]) -> str:
    """A question for the end of an error, if a known word is like the given one; or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), 1)
    return f" Did you mean {found[0]!r}?" if found else ""


def storable(text: str) -> str:
    """Without what no database takes as text: halves of characters, and the zero byte."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
