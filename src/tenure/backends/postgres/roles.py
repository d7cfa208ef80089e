"""The script that `tenure migrate --roles` prints, made without a connection."""

from __future__ import annotations

import re
from importlib.resources import files
from textwrap import indent

from psycopg.conninfo import conninfo_to_dict

from tenure.backends.postgres.statements import PACKAGE, literal
from tenure.backends.shared import sql
from tenure.errors import ConfigError
from tenure.model import RoleScript

KINDS = ("migrator", "node", "editor", "reader")
_PREFIX = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,29}")


def role_script(url: str, schema: str, prefix: str) -> RoleScript:
    """The script for this schema, and for the URL's database if it names one."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"--prefix {prefix!r}: the names of the roles begin with it. Give a lower-case letter"
            " or _, then lower-case letters, digits or _, at most 30 characters; not pg_,"
            " which PostgreSQL reserves."
        )
    database = str(conninfo_to_dict(url).get("dbname") or "")
    if not database.isprintable():
        raise ConfigError("the name of the database in this URL has unprintable characters.")
    names = {kind: f"{prefix}{kind}" for kind in KINDS}
    template = files(PACKAGE).joinpath("roles.sql").read_text(encoding="utf-8")
    rights = indent(sql.load(PACKAGE, "sql/rights.sql")["rights"], " " * 16)
    text = template.format(
        **names, rights=rights, schema=literal(schema), database=literal(database)
    )
    advice = (
        "Run it with psql, first as a superuser or as a role that may create roles, and again after"
        f" each migration as {names['migrator']}. Then let the roles log in; the script says how."
    )
    return RoleScript(text, advice)
