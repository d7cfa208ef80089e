"""Sentinel and Cluster: which server has a key, and whether failover would work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import exceptions

from tenure.backends.redis.client import bounded, close
from tenure.backends.redis.target import Target
from tenure.errors import StoreError
from tenure.model import Finding, Severity

_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


async def home(target: Target, client: Any, key: str) -> Any:
    """A plain client for the server that has this key; the given one, if that is plain."""
    if target.kind != "cluster":
        return client
    # For this, the cluster's client has to find out where the slot is now.
    await bounded(client.exists(key))
    node = client.get_node_from_key(key)
    return target.at(node.host, node.port).connect()


async def sentinels(target: Target) -> list[Finding]:
    """Do the sentinels answer, do they agree, and is there a replica to promote?"""
    if target.kind != "sentinel":
        return []
    away, seen = [], []
    for host, port in target.hosts:
        try:
            seen.append(await _ask(target, host, port))
        except StoreError as error:
            away.append(f"{host}:{port} ({error})")
    if not seen:
        text = f"no sentinel can be asked about {target.service!r}: {'; '.join(away)}"
        return [Finding("Redis sentinels", _PROBLEM, text, target.advice)]
    quorum, state = seen[0]
    known = int(state["num-other-sentinels"]) + 1
    text = f"{len(seen)} of {len(target.hosts)} in the URL answer, {known} know each other"
    if quorum is not None:
        return [
            Finding(
                "Redis sentinels",
                _PROBLEM,
                f"{text}; they cannot fail over: {quorum}",
                "Start the sentinels that are missing: nobody takes over from a lost master.",
            )
        ]
    if away:
        remedy = "Start them, or take them out of the URL."
        return [Finding("Redis sentinels", _WARNING, f"{text}; not {'; '.join(away)}", remedy)]
    if known < 3 or not int(state["num-slaves"]):
        return [
            Finding(
                "Redis sentinels",
                _WARNING,
                f"{text}; the master has {state['num-slaves']} replica(s)",
                "A failover needs a replica, and sentinels of which a majority survives: three.",
            )
        ]
    return [Finding("Redis sentinels", _OK, f"{text}; {state['num-slaves']} replica(s)")]


async def _ask(target: Target, host: str, port: int) -> tuple[str | None, Mapping[str, Any]]:
    """Why this sentinel could not promote a replica, if so; and what it knows about the master."""
    client = Target("server", ((host, port),), target.sentinel_options).connect()
    try:
        state = await bounded(client.sentinel_master(target.service))
        try:
            await bounded(client.sentinel_ckquorum(target.service))
        except StoreError as error:
            if not isinstance(error.__cause__, exceptions.ResponseError):
                raise
            return str(error.__cause__), state
        return None, state
    finally:
        await close(client)


def cluster(target: Target, info: Mapping[str, Any]) -> list[Finding]:
    """Is the node that has the namespace well?"""
    member = bool(int(info.get("cluster_enabled", 0)))
    if target.kind != "cluster":
        if not member:
            return []
        return [
            Finding(
                "Redis cluster",
                _PROBLEM,
                "this server is a node of a cluster, and the namespace may move to another",
                f"Write redis+cluster://{target.location.partition('://')[2].partition('/')[0]}",
            )
        ]
    if not int(info.get("connected_slaves", 0)):
        return [
            Finding(
                "Redis cluster",
                _WARNING,
                "the node that has this namespace has no replica: without it there are no leases",
                "Give it a replica: CLUSTER REPLICATE.",
            )
        ]
    return [Finding("Redis cluster", _OK, "the node that has this namespace has a replica")]
