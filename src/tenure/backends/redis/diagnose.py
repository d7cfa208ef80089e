"""What `tenure doctor` asks of a Redis. Nothing here changes anything."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from redis.exceptions import NoPermissionError

from tenure.backends.address import Address
from tenure.backends.redis import damage, rights, topology
from tenure.backends.redis.client import bounded, close
from tenure.backends.redis.keys import Keys
from tenure.backends.redis.target import Target
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Finding, Severity
from tenure.process.clock import Clock, from_micros

OLDEST = (6, 2)
SKEW = 1.0
NEARLY_FULL = 0.9
REMEMBERED = timedelta(minutes=5)
"""A server that started over is reported for so long: the longest usual ttl."""
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
Info = Mapping[str, Any]


async def diagnose(target: Target, namespace: str, clock: Clock) -> list[Finding]:
    """Each check needs the ones before it; the first that stops the rest ends the list."""
    keys = Keys(namespace, target.prefix)
    findings = await topology.sentinels(target)
    client = target.connect()
    home = client
    try:
        home = await topology.home(target, client, keys.server)
        findings += await _of_server(target, home, keys, clock)
    except StoreError as error:
        remedy = target.advice if isinstance(error, StoreUnavailable) else None
        findings.append(Finding("Redis", _PROBLEM, str(error), remedy))
    finally:
        await close(client)
        if home is not client:
            await close(home)
    return findings


async def _of_server(target: Target, client: Any, keys: Keys, clock: Clock) -> list[Finding]:
    user = str(target.options.get("username") or "default")
    allowed = await rights.check(client, keys.prefix, user, reads=True)
    may = [] if allowed is None else [allowed]
    try:
        info: Info = await bounded(client.info("everything"))
    except StoreError as error:
        if isinstance(error.__cause__, NoPermissionError) and may:
            return may
        raise
    config = await _config(client)
    findings = [
        server(info, user),
        *may,
        role(info),
        *topology.cluster(target, info),
        memory(info),
        persistence(info, config),
        replication(info, config),
        await _clock(client, clock),
        tls(target),
    ]
    if allowed is None or allowed.severity is not _PROBLEM:
        secret = target.options.get("password") is not None
        at = Address(None if secret else target.location, keys.namespace)
        findings += await _began_anew(client, keys.server, info)
        findings += await damage.check(client, keys, at, clock)
    return findings


async def _config(client: Any) -> Mapping[str, str]:
    """Empty if this user may not read it: hosted servers often forbid it."""
    try:
        save = await bounded(client.config_get("save"))
        return dict(save) | dict(await bounded(client.config_get("min-replicas-*")))
    except StoreError:
        return {}


def server(info: Info, user: str) -> Finding:
    version = str(info.get("valkey_version") or info["redis_version"])
    name = "Valkey" if info.get("valkey_version") else "Redis"
    text = f"{name} {version}, as user {user}"
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return Finding("Redis", _WARNING, text, "Older than 6.2, which is the oldest tested.")
    return Finding("Redis", _OK, text)


def role(info: Info) -> Finding:
    if info["role"] == "master":
        return Finding("Redis role", _OK, "master, writable")
    return Finding(
        "Redis role",
        _PROBLEM,
        "this server is a replica and cannot be written",
        f"Give the master's address ({info.get('master_host')}:{info.get('master_port')}), or a"
        " redis+sentinel:// URL.",
    )


def memory(info: Info) -> Finding:
    """Our keys have no expiry in Redis: only the policies that evict any key can evict them."""
    policy, limit = str(info["maxmemory_policy"]), int(info["maxmemory"])
    if policy.startswith("allkeys"):
        effect = "an evicted lease is a forgotten lease: two may hold one lock"
        return Finding(
            "Redis memory",
            _PROBLEM if limit else _WARNING,
            f"maxmemory-policy is {policy}: {effect}"
            + ("" if limit else " (not yet: maxmemory is not set)"),
            "CONFIG SET maxmemory-policy noeviction (or volatile-lru: keys of Tenure have no ttl),"
            " or give Tenure a server of its own.",
        )
    if limit and int(info["used_memory"]) > NEARLY_FULL * limit:
        return Finding(
            "Redis memory",
            _WARNING,
            f"{int(info['used_memory']) / limit:.0%} of maxmemory is used",
            "When it is full no lease can be taken. Raise maxmemory, or remove what fills it.",
        )
    return Finding("Redis memory", _OK, f"{policy}: leases are not evicted")


def persistence(info: Info, config: Mapping[str, str]) -> Finding:
    failed = [name for name in ("rdb_last_bgsave", "aof_last_write") if _failed(info, name)]
    if failed:
        return Finding(
            "Redis persistence",
            _PROBLEM,
            f"the server cannot save ({', '.join(failed)}), and may refuse writes because of it",
            "See the server's log: is its disk full, or its folder not writable?",
        )
    if info.get("aof_enabled"):
        return Finding("Redis persistence", _OK, "appendonly: leases survive a restart")
    if config.get("save") == "":
        return Finding(
            "Redis persistence",
            _WARNING,
            "nothing is saved: a restart forgets who holds what, and the history",
            "Safe all the same: terms go on growing, leadership is fenced, and locks are refused"
            " for one ttl. To lose nothing: CONFIG SET appendonly yes.",
        )
    return Finding(
        "Redis persistence", _OK, "snapshots: a restart may forget the last changes, safely"
    )


def _failed(info: Info, name: str) -> bool:
    return str(info.get(f"{name}_status", "ok")) != "ok"


def replication(info: Info, config: Mapping[str, str]) -> Finding:
    replicas, least = int(info.get("connected_slaves", 0)), config.get("min-replicas-to-write")
    good = info.get("min_slaves_good_slaves")  # present only if a minimum is set
    if good is not None and least is not None and int(good) < int(least):
        return Finding(
            "Redis replication",
            _PROBLEM,
            f"writes are refused: {good} replicas keep up, and min-replicas-to-write is {least}",
            "Bring the replicas back, or lower min-replicas-to-write.",
        )
    if good is not None:
        return Finding(
            "Redis replication",
            _OK,
            f"{replicas} replica(s), of which {least or 'some'} must have each write",
        )
    if replicas:
        return Finding(
            "Redis replication",
            _WARNING,
            f"{replicas} replica(s), and none needs to have a write: a failover forgets the last"
            " moments, and a master that was cut off goes on granting locks beside its successor",
            "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag below the ttl of your"
            " locks. Leadership is safe either way, because it is fenced.",
        )
    return Finding("Redis replication", _OK, "no replicas")


async def _clock(client: Any, clock: Clock) -> Finding:
    before = clock.now()
    seconds, micros = await bounded(client.time())
    middle = before + (clock.now() - before) / 2
    skew = (from_micros(seconds * 1_000_000 + micros) - middle).total_seconds()
    text = f"this machine is {abs(skew):.2f} s {'behind' if skew > 0 else 'ahead of'} the server"
    if abs(skew) > SKEW:
        return Finding(
            "Redis clock",
            _WARNING,
            text,
            "No lease is lost by that, but takeovers get slower. Let both follow NTP.",
        )
    return Finding("Redis clock", _OK, text)


def tls(target: Target) -> Finding:
    if target.tls:
        return Finding("Redis TLS", _OK, "on")
    away = [host for host, _ in target.hosts if not _is_local(host)]
    if not away:
        return Finding("Redis TLS", _OK, "not needed: the server is on this machine")
    return Finding(
        "Redis TLS",
        _WARNING,
        f"passwords and leases go to {', '.join(away)} as plain text",
        "Where that network is not yours alone: rediss:// (or rediss+sentinel://,"
        " rediss+cluster://).",
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _began_anew(client: Any, key: str, info: Info) -> list[Finding]:
    """A server that started over grants no locks for a while (began.lua): say why."""
    try:
        run, since = await bounded(client.hmget(key, ["run", "since"]))
        seconds, _ = await bounded(client.time())
        ago = int(seconds) - int(float(since or 0)) / 1000
    except (StoreError, ValueError, OverflowError):
        return []  # damage.py reports what cannot be read
    if run != info["run_id"] or not -1 < ago <= REMEMBERED.total_seconds():
        return []
    ago = max(ago, 0)
    return [
        Finding(
            "Redis run",
            _WARNING,
            f"this server started over {ago:.0f} s ago (restarted, emptied or failed over): locks"
            f" with a ttl of more than {ago:.0f} s are refused until that has passed",
            "Wait. A former holder may still trust its lock. Leadership is not affected.",
        )
    ]
