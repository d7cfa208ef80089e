"""Which rights a Redis user needs, and what is lost without the optional ones."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.redis.client import bounded
from tenure.backends.redis.keys import Keys, script
from tenure.errors import ConfigError, StoreError
from tenure.model import Finding, RoleScript, Severity

_KEY, _CHANNEL = "%key", "%channel"
NEEDED: Sequence[Sequence[str]] = (
    *((command, _KEY) for command in ("LLEN", "EXISTS", "DEL", "PERSIST")),
    *((command, _KEY, "x") for command in ("HMGET", "HGET", "HDEL", "SADD", "SREM", "LPUSH")),
    *((command, _KEY, "0", "1") for command in ("LRANGE", "LTRIM")),
    *(("HSET", _KEY, "x", "1"), ("PEXPIRE", _KEY, "1")),
    *((command, _KEY, "0") for command in ("SSCAN", "LINDEX")),
    *(("PUBLISH", _CHANNEL, "x"), ("TIME",), ("INFO",), ("PING",)),
    *(("EVALSHA", "0" * 40, "1", _KEY), ("SCRIPT", "LOAD", "x")),
)
"""The commands that are used in the scripts, and to run them."""
USEFUL: Sequence[tuple[Sequence[str], str]] = (
    (("SUBSCRIBE", _CHANNEL), "wake-ups are not heard, so every process polls every second"),
    (("UNSUBSCRIBE", _CHANNEL), "wake-ups keep coming after they are no longer needed"),
    (("CLIENT", "ID"), "a leader killed on another machine is noticed only after its ttl"),
    (("CLIENT", "LIST"), "a leader killed on another machine is noticed only after its ttl"),
    (("CONFIG", "GET", "save"), "this check cannot see how the server saves and replicates"),
    (("SCAN", "0"), "this check cannot find leases that are not on the list of names"),
)
TELLING = ("CONFIG", "SCAN")
"""Those of them that reveal other things: the server's passwords, and the names of all keys."""
READ = ("HMGET", "LRANGE", "LLEN", "LINDEX", "EXISTS", "SSCAN")
"""The commands that read our keys."""
_READS = {*READ, "TIME", "INFO", "PING", "EVALSHA", "SCRIPT"}
_WRITES = {command[0] for command in NEEDED} - _READS
"""The commands that only a node needs. A user with only some of them is neither node nor reader."""
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


async def check(client: Any, prefix: str, user: str, *, reads: bool = False) -> Finding | None:
    """Whether this user has the rights that it needs; None if the server cannot tell (before 7.0).
    With `reads`, those of a reader are enough."""
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
            _remedy(user, prefix, [("EVALSHA",), ("SCRIPT", "LOAD")]),
        )
    if numbers == [-1]:
        return None
    lacking = {int(number) - 1 for number in numbers}
    needed = [NEEDED[number] for number in sorted(lacking) if number < len(NEEDED)]
    useful = [pair for number, pair in enumerate(USEFUL, len(NEEDED)) if number in lacking]
    if reads and {command[0] for command in needed} == _WRITES:
        text = f"user {user!r} reads and changes nothing: enough for a reader, not for a node"
        return Finding("Redis rights", _OK, text)
    if needed:
        text = f"user {user!r} may not use {_listed(needed)} on keys and channels of Tenure"
        return Finding("Redis rights", _PROBLEM, text, _remedy(user, prefix, needed))
    if useful:
        names = [command for command, _ in useful]
        losses = "; ".join(dict.fromkeys(loss for _, loss in useful))
        text = f"user {user!r} may not use {_listed(names)}: {losses}"
        if all(command[0] in TELLING for command in names):
            return Finding("Redis rights", _OK, f"{text}. No node needs them")
        names = [command for command in names if command[0] not in TELLING]
        return Finding("Redis rights", _WARNING, text, _remedy(user, prefix, names))
    return Finding("Redis rights", _OK, f"user {user!r} may do all that is needed")


def _listed(commands: Sequence[Sequence[str]]) -> str:
    return ", ".join(dict.fromkeys(_name(command) for command in commands))


def _remedy(user: str, prefix: str, commands: Sequence[Sequence[str]]) -> str:
    """A command that grants these, on the keys and channels of this namespace only."""
    own = f"{_pattern(prefix)}*"
    return f"ACL SETUSER {user} ~{own} &{own} {' '.join(_granted(commands))}"


def _pattern(text: str) -> str:
    """With ? in place of characters that are special in a pattern or on a command line."""
    return re.sub(r"[^\w.:/@+{}-]", "?", text)


def _name(command: Sequence[str]) -> str:
    container = command[0] in ("CLIENT", "CLUSTER", "CONFIG", "SCRIPT")
    return "|".join(command[:2] if container else command[:1]).lower()


def role_script(keys: Keys, prefix: str, cluster: bool, database: int | None = None) -> RoleScript:
    """ACL commands for a reader and a node of one namespace. Neither gets the commands that reveal
    other things, which only `tenure doctor` uses."""
    if not re.fullmatch(r"\w{1,50}", prefix, re.ASCII):
        raise ConfigError(
            f"--prefix {prefix!r}: the names of the users begin with it. Give letters, digits or _,"
            " at most 50."
        )
    own = f"{_pattern(keys.prefix)}*"
    words = ("resetkeys", "resetchannels", f"~{own}", f"&{own}", "-@all")
    asking: list[Sequence[str]] = [("TIME",), ("INFO",), ("PING",), ("EVALSHA",)]
    asking += [("SCRIPT", "LOAD"), *((("CLUSTER", "SLOTS"), ("COMMAND",)) if cluster else ())]
    asking += [("SELECT",)] if database else []
    reader = [*((command,) for command in READ), *asking, ("SUBSCRIBE",), ("UNSUBSCRIBE",)]
    node = [*NEEDED, *asking, *(command for command, _ in USEFUL if command[0] not in TELLING)]
    lines = [
        " ".join(("ACL", "SETUSER", f"{prefix}{kind}", *words, *_granted(commands)))
        for kind, commands in (("reader", reader), ("node", node))
    ]
    advice = (
        f"For namespace {keys.namespace!r}. Pipe it to redis-cli as an administrator; then give"
        f" each user a password and let it in (ACL SETUSER {prefix}node on >…), and keep that with"
        " ACL SAVE or in the server's configuration. A reader reads leases and their history, and"
        " changes nothing. Editors and migrators are for the SQL store: give its URL for those."
    )
    return RoleScript("\n".join(lines), advice)


def _granted(commands: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(f"+{_name(command)}" for command in commands))
