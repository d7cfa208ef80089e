"""A node as newer code would have it: with one more migration, and with a kind of target, `signal`,
whose occurrences make runs as those of a task do."""

from __future__ import annotations

import logging

from tenure.backends.shared import sql

_plain = sql._plain
sql._plain = lambda text: _plain(text).replace("target = 'task'", "target IN ('task', 'signal')")

# Now that statements know the target: these read them.
from tenure.backends.postgres import migrate as postgres  # noqa: E402
from tenure.backends.postgres.statements import PACKAGE  # noqa: E402
from tenure.backends.sqlite import migrate as sqlite  # noqa: E402
from tenure.node import node as a_node  # noqa: E402
from tenure.schedules import planning  # noqa: E402
from tests.faults.programs import node  # noqa: E402
from tests.faults.programs.common import Options, start  # noqa: E402

NEWER = {
    sqlite.PACKAGE: """
        ALTER TABLE tenure_run ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';
        ALTER TABLE tenure_schedule ADD COLUMN colour TEXT;
        CREATE TABLE tenure_colour (name TEXT PRIMARY KEY);
    """,
    PACKAGE: """
        ALTER TABLE {schema}.run ADD COLUMN colour text NOT NULL DEFAULT 'red';
        ALTER TABLE {schema}.schedule ADD COLUMN colour text;
        CREATE TABLE {schema}.colour (name text PRIMARY KEY);
    """,
}


def main(options: Options) -> None:
    for module in (sqlite, postgres):
        vars(module)["migrations"] = _one_more
    for module in (planning, a_node):
        vars(module)["TARGETS"] |= {"signal"}
    node.main(options)


def _one_more(package: str) -> list[tuple[int, str, str]]:
    known = sql.migrations(package)
    return [*known, (known[-1][0] + 1, "colours", NEWER[package])]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
