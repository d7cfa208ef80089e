"""Lengths of time, numbers and nodes in words, for people."""

from __future__ import annotations

from datetime import datetime


def span(seconds: float) -> str:
    """A length of time in at most two units: 400ms, 12s, 3m 5s, 2h 10m, 4d 3h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.001 or not seconds else "<1ms"
    if seconds < 1:
        return "1s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    for name, size, smaller, part in (
        ("m", 60, "s", 1),
        ("h", 3600, "m", 60),
        ("d", 86_400, "h", 3600),
    ):
        if whole < size * {"m": 60, "h": 48, "d": 10**9}[name]:
            rest = whole % size // part
            return f"{whole // size}{name} {rest}{smaller}" if rest else f"{whole // size}{name}"
    raise AssertionError(seconds)


def lasted(seconds: float) -> str:
    """How long something took: as `span`, but below a minute also the tenths of seconds."""
    return f"{int(seconds * 10) / 10:.1f}s" if 1 <= seconds < 60 else span(seconds)


def relative(moment: datetime, now: datetime) -> str:
    """3m ago, in 12s, now."""
    distance = (moment - now).total_seconds()
    if abs(distance) < 0.05:
        return "now"
    return f"in {span(distance)}" if distance > 0 else f"{span(-distance)} ago"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(node: str | None) -> str | None:
    """A node for listings: host and pid tell it apart, the random part is for the whole id."""
    return None if node is None else node.rpartition(":")[0] or node
