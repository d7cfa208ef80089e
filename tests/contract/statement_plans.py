"""How PostgreSQL would execute a statement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tenure.backends.postgres.statements import Transactions


async def scans(database: Transactions, text: str, values: dict[str, Any]) -> dict[str, str]:
    """The tables that the plan reads, each with its index; or how else."""
    found = await nodes(database, text, values)
    assert not {node["Node Type"] for node in found} & {"Hash Join", "Merge Join", "Seq Scan"}
    for node in found:
        if node.get("Index Name") in ("lease_pkey", "lease_history_pkey"):
            # By the namespace alone they would read all of it.
            assert "name = " in node["Index Cond"].replace("namespace = ", ""), node
    return {
        node["Relation Name"]: node.get("Index Name", node["Node Type"])
        for node in found
        if "Relation Name" in node and node["Node Type"] != "ModifyTable"
    }


async def nodes(database: Transactions, text: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps of the plan."""
    ((row),) = await database.one(f"EXPLAIN (FORMAT JSON) {text}", values)
    plan = row["QUERY PLAN"]
    return list(steps((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def steps(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A step of a plan, and those before it."""
    yield node
    for inner in node.get("Plans", ()):
        yield from steps(inner)
