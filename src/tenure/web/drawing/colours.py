"""Which colour a holder has: the same on every page, as far as eight colours go."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

COLOURS = 8


def colours(holders: Iterable[str | None]) -> dict[str, int]:
    """By holder, a number below `COLOURS`. Each has the one of its name, or the next that is free,
    as long as there is one."""
    given: dict[str, int] = {}
    for holder in sorted({holder for holder in holders if holder}):
        wanted = crc32(holder.encode()) % COLOURS
        free = [(wanted + n) % COLOURS for n in range(COLOURS)]
        taken = set(given.values())
        given[holder] = next((n for n in free if n not in taken), wanted)
    return given
