"""How PostgreSQL would execute a statement."""

from __future__ import annotations

import json
import re
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
    """All steps of the plan for these values."""
    return await _explained(database, f"EXPLAIN (FORMAT JSON) {text}", values)


async def nodes_of_any(
    database: Transactions, text: str, values: dict[str, Any]
) -> list[dict[str, Any]]:
    """All steps of the plan for any values of such types, which statements have that are planned
    once. From PostgreSQL 16 on."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        if name not in names:
            names.append(name)
        number = f"${names.index(name) + 1}"
        return f"{number}::bigint" if type(values[name]) is int else number

    text = re.sub(r"%\((\w+)\)s", numbered, text).replace("%%", "%")
    return await _explained(database, f"EXPLAIN (FORMAT JSON, GENERIC_PLAN) {text}", {})


async def _explained(
    database: Transactions, text: str, values: dict[str, Any]
) -> list[dict[str, Any]]:
    ((row),) = await database.one(text, values)
    plan = row["QUERY PLAN"]
    return list(steps((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def steps(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A step of a plan, and those before it."""
    yield node
    for inner in node.get("Plans", ()):
        yield from steps(inner)
