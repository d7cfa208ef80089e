"""What a user of Redis must be allowed to do, and what is lost without the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.redis.client import bounded, script
from tenure.errors import StoreError
from tenure.model import Finding, Severity

_KEY, _CHANNEL = "%key", "%channel"
NEEDED: Sequence[Sequence[str]] = (
    *((command, _KEY) for command in ("HGETALL", "LLEN", "EXISTS", "DEL")),
    *((command, _KEY, "x") for command in ("HMGET", "HGET", "HDEL", "SADD", "SREM", "LPUSH")),
    *((command, _KEY, "x", "1") for command in ("HSET", "HINCRBY")),
    *((command, _KEY, "0", "1") for command in ("LRANGE", "LTRIM")),
    *((command, _KEY, "0") for command in ("SSCAN", "LINDEX")),
    *(("PUBLISH", _CHANNEL, "x"), ("TIME",), ("INFO",), ("PING",)),
    *(("EVALSHA", "0" * 40, "1", _KEY), ("SCRIPT", "LOAD", "x")),
)
"""Commands as they are used: in the scripts, and to run them."""
USEFUL: Sequence[tuple[Sequence[str], str]] = (
    (("SUBSCRIBE", _CHANNEL), "wake-ups are not heard, so everybody looks every second"),
    (("UNSUBSCRIBE", _CHANNEL), "wake-ups that nobody waits for any more go on coming"),
    (("CLIENT", "ID"), "a leader killed on another machine is noticed only after its ttl"),
    (("CLIENT", "LIST"), "a leader killed on another machine is noticed only after its ttl"),
    (("CONFIG", "GET", "save"), "this check cannot see how the server saves and replicates"),
)
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


async def check(client: Any, prefix: str, user: str) -> Finding | None:
    """Whether this user may do what it must; None if the server cannot tell (before 7.0)."""
    commands = [*NEEDED, *(command for command, _ in USEFUL)]
    words = [[f"{prefix}wake" if w == _CHANNEL else w for w in command] for command in commands]
    try:
        asking = client.register_script(script("rights"))
        numbers = await bounded(asking(keys=[f"{prefix}server"], args=[json.dumps(words)]))
    except StoreError as error:
        if not isinstance(error.__cause__, NoPermissionError):
            raise
        return Finding(
            "Redis rights",
            _PROBLEM,
            f"user {user!r} may not run scripts on our keys: {error.__cause__}",
            f"ACL SETUSER {user} ~tenure:* &tenure:* +evalsha +script|load",
        )
    if numbers == [-1]:
        return None
    lacking = {int(number) - 1 for number in numbers}
    needed = [NEEDED[number] for number in sorted(lacking) if number < len(NEEDED)]
    useful = [pair for number, pair in enumerate(USEFUL, len(NEEDED)) if number in lacking]
    if needed:
        text = f"user {user!r} may not use {_listed(needed)} on keys and channels of Tenure"
        return Finding("Redis rights", _PROBLEM, text, _remedy(user, needed))
    if useful:
        names = [command for command, _ in useful]
        losses = "; ".join(dict.fromkeys(loss for _, loss in useful))
        text = f"user {user!r} may not use {_listed(names)}: {losses}"
        return Finding("Redis rights", _WARNING, text, _remedy(user, names))
    return Finding("Redis rights", _OK, f"user {user!r} may do all that is needed")


def _listed(commands: Sequence[Sequence[str]]) -> str:
    return ", ".join(dict.fromkeys(_name(command) for command in commands))


def _remedy(user: str, commands: Sequence[Sequence[str]]) -> str:
    rights = " ".join(dict.fromkeys(f"+{_name(command)}" for command in commands))
    return f"ACL SETUSER {user} ~tenure:* &tenure:* {rights}"


def _name(command: Sequence[str]) -> str:
    container = command[0] in ("CLIENT", "CONFIG", "SCRIPT")
    return "|".join(command[:2] if container else command[:1]).lower()
