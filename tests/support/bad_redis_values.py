"""What a hand, a defect or an attacker could leave in the keys of Tenure in a Redis."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import redis

TEXTS: tuple[str | bytes, ...] = (
    "",
    " ",
    "abc",
    "-1",
    "0",
    "1e400",
    "1e300",
    "-1e300",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "99999999999999999999999999",
    "1.5",
    "null",
    "{}",
    "[]",
    '{"triggers": 5, "app": [], "tasks": {}, "edition": 1}',
    "[" * 900,
    "tenure/leader",
    "\x00",
    "\x1b[2J",
    b"\xff\xfe\x00",
    b"{\xff",
    "é" * 400,
    "x" * 300_000,
)
FIELDS = (
    *("holder", "term", "counter", "host", "pid", "boot", "pid_namespace", "started", "client"),
    *("run", "ttl", "fenced", "acquired_at", "renewed_at", "expires_at", "expires_boot"),
    *("holder_now", "info", "released", "name"),
)
TYPES: dict[str, Callable[[redis.Redis, str], Any]] = {
    "string": lambda line, key: line.set(key, "abc"),
    "bytes": lambda line, key: line.set(key, b"\xff" * 1000),
    "list": lambda line, key: line.rpush(key, "a", b"\xff"),
    "set": lambda line, key: line.sadd(key, "a", b"\xff"),
    "sorted set": lambda line, key: line.zadd(key, {"a": 1}),
    "stream": lambda line, key: line.xadd(key, {"a": "b"}),
    "hash": lambda line, key: line.hset(key, mapping={"a": "b"}),
    "nothing": lambda line, key: None,
}


NUMBERS = {*("term", "counter", "pid", "started", "ttl"), *("renewed_at", "expires_at", "since")}
NO_NUMBERS = {"", " ", "abc", "-1", "1e400", "-1e300", "inf", "-inf", "nan", "null", "{}", "[]"}
"""What certainly is none of ours in such a field."""


class Damage(NamedTuple):
    """What was done to a key, and whether anybody can see that it was."""

    key: str
    how: str
    plain: bool


def retype(line: redis.Redis, key: str, kind: str) -> None:
    """Put something of that type in its place."""
    line.delete(key)
    TYPES[kind](line, key)


def damage_hash(line: redis.Redis, key: str, fields: tuple[str, ...], random: Random) -> Damage:
    """Change or drop fields, or all of it."""
    how = random.choice(["set", "set", "set", "drop", "half", "many", "type"])
    server = key.endswith(":server")
    if how == "type":
        return _retyped(line, key, random, right="hash" if server else "")
    if how == "drop":
        field = random.choice(fields)
        line.hdel(key, field)
        return Damage(key, f"no {field}", field in NUMBERS and not server)
    if how == "half":
        gone = random.sample(fields, len(fields) // 2)
        line.hdel(key, *gone)
        return Damage(key, f"no {gone}", bool(NUMBERS & set(gone)) and not server)
    changed: dict[Any, Any] = {field: random.choice(TEXTS) for field in fields}
    if how == "set":
        field = random.choice(fields)
        changed = {field: changed[field]}
    line.hset(key, mapping=changed)
    bad = any(changed.get(field) in NO_NUMBERS for field in NUMBERS)
    free = changed.get("holder") == ""
    return Damage(key, _brief(changed), bad and not free)


def damage_names(line: redis.Redis, key: str, random: Random) -> Damage:
    if random.random() < 0.7:
        return _retyped(line, key, random, right="set")
    line.sadd(key, *(value for value in TEXTS if value != ""))
    return Damage(key, "bad names", plain=True)


def damage_history(line: redis.Redis, key: str, random: Random) -> Damage:
    if random.random() < 0.7:
        return _retyped(line, key, random, right="list")
    values = random.sample(TEXTS, 8)
    line.lpush(key, *values)
    line.rpush(key, '{"name": "x"}', '{"name": 5}', '{"name": "x", "ended_at": {}}', *values)
    return Damage(key, f"lines {_brief(values)}", plain=True)


def _retyped(line: redis.Redis, key: str, random: Random, right: str) -> Damage:
    kind = random.choice(list(TYPES))
    retype(line, key, kind)
    return Damage(key, f"a {kind}", kind not in (right, "nothing"))


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}…"
