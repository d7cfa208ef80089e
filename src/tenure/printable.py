"""Text from outside, made safe to print: on one line, without control characters.

Names, reasons, hosts and errors come from users, other processes and rows that anybody may have
written. An escape sequence in them would command the terminal, a newline would forge a line of the
log, and a right-to-left mark would show a text that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

LONGEST = 80
"""How much is shown of what somebody gave."""
_MISREAD = set(" =\"'\\\n\r\t")


def one_line(value: object) -> str:
    """As one line of a terminal or a log."""
    text = str(value)
    return text if text.isprintable() else "".join(map(_visible, text))


def lines(value: object) -> str:
    """The same of a text that has lines of its own, such as a traceback."""
    return "\n".join(map(one_line, re.split(r"\r?\n", str(value).replace("\t", "    "))))


def field(value: object) -> str:
    """As the value of a field, in a line of fields: in quotes if it could pass for two."""
    if isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str):
        return one_line(value)
    text = value.strip().rpartition("\n")[2] if "\n" in value.strip() else value
    if not text or set(text) & _MISREAD:
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return one_line(text)


def continued(values: Iterable[object]) -> Iterator[str]:
    """The lines of those that have more than one, each marked as not a line of ours."""
    for value in values:
        if isinstance(value, str) and "\n" in value.strip():
            yield from (f"  | {line}".rstrip() for line in lines(value.strip()).split("\n"))


def brief(value: object) -> str:
    """The repr of what somebody gave, shortened; of anything, also of a number of 5,000 digits."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is only to be named in an error
        return f"a {type(value).__qualname__} that cannot be shown"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 20]}…{text[-19:]}"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
