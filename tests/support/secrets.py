"""Passwords that are hard to hide, URLs that have them, and everything that may tell of them."""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import quote

BETWEEN = (
    *("", "/", "//", "#", "?", "@", "%", "%zz", "[", "]", ":", "&", "=", " ", "'", '"', "\\", "\n"),
    *("://", "12/", "&sslmode=", "&db=", "{x}", "$x", "@/", "/@", "?@", "#@", "%2F", "\x1b", "é"),
)
"""What stands between the two halves: whatever ends a part of a URL somewhere."""
LEFT, RIGHT = "hunt3rX", "s3cr3tY"
DRIVERS = ("psycopg", "psycopg_pool", "redis")
NUMBER = "47119"
"""A first half that can pass for a port."""
PASSWORDS = tuple(f"{left}{mark}{RIGHT}" for mark in BETWEEN for left in (LEFT, NUMBER))
PLAIN = LEFT + RIGHT

POSTGRES = (
    "postgresql://app:{}@127.0.0.1:1/db",
    "postgres://app:{}@127.0.0.1:1",
    "postgresql+psycopg2://app:{}@127.0.0.1:1,127.0.0.1:2/db?sslmode=disable",
    "postgresql://127.0.0.1:1/db?password={}",
    "postgresql://app@127.0.0.1:1/db?sslpassword={}&sslmode=disable",
    "postgresql://127.0.0.1:1?user=app&password={}",
)
REDIS = (
    "redis://:{}@127.0.0.1:1/0",
    "redis://app:{}@127.0.0.1:1",
    "redis://127.0.0.1:1/0?password={}",
    "rediss://:{}@127.0.0.1:1/0?ssl_cert_reqs=none",
    "redis+sentinel://:{}@127.0.0.1:1,127.0.0.1:2/service",
    "redis+sentinel://127.0.0.1:1/service?sentinel_password={}",
    "redis+cluster://:{}@127.0.0.1:1",
    "unix://:{}@/nowhere/redis.sock",
)
OTHERS = (
    "mysql://app:{}@host/db",
    "sqlite://app:{}@host/db",
    "sqlite:///app:{}@host/db",
    "sqlite+pysqlcipher://:{}@/file.db",
    "postgresql:/app:{}@127.0.0.1/db",
    "app:{}@127.0.0.1/db",
    "host=127.0.0.1 port=1 password={}",
    "redis+swarm://:{}@host/0",
    "{}",
)
FORMS = (*POSTGRES, *REDIS, *OTHERS)


def urls(form: str) -> Iterator[str]:
    """The form with every password: as it is, and encoded as it should be."""
    for password in PASSWORDS:
        yield form.format(password)
        yield form.format(quote(password, safe=""))


def check(told: str, what: object) -> None:
    """Nothing of a password is in what was told, whatever its case, and whichever half."""
    told = re.sub(r"\b0x[0-9a-f]+\b", "0x…", told)  # an address may have the digits of NUMBER
    found = [part for part in (LEFT, RIGHT, NUMBER) if part.lower() in told.lower()]
    assert not found, f"{what!r}: {found} in\n{told}"


def everything(error: BaseException) -> str:
    """All that can be seen of an error, as an error reporter looks at it: its text, repr, notes and
    attributes, and theirs; what a pickle of it has; and the same of its causes. Of the frames that
    it came through: the drivers' local variables, which have the connection's settings, and errors
    in ours."""
    told, seen, todo = list[str](), set[int](), [error]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        told += [str(each), repr(each), repr(each.args), *getattr(each, "__notes__", ())]
        told += traceback.format_exception(each)
        told += _attributes(each, 2)
        told.append(repr(pickle.dumps(each)))
        told += _locals(each.__traceback__)
        todo += [e for e in (each.__cause__, each.__context__) if e is not None]
        todo += getattr(each, "exceptions", ())
    return "\n".join(told)


def _attributes(thing: object, levels: int) -> Iterator[str]:
    for name in dir(thing):
        if not name.startswith("__"):
            try:
                value = getattr(thing, name)
            except Exception:
                continue
            yield repr(value)
            if levels > 1 and not callable(value):
                yield from _attributes(value, levels - 1)


def _locals(frames: TracebackType | None) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(frames):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in DRIVERS:
            yield repr(frame.f_locals)
        for value in frame.f_locals.values():
            if package in DRIVERS or (package == "tenure" and isinstance(value, BaseException)):
                yield from _attributes(value, 1)
