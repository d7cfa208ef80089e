"""Recognises the server's errors, whichever driver raises them, and translates them into ours."""

from __future__ import annotations

import re
from typing import NoReturn

import psycopg

from tenure.backends.address import NOWHERE
from tenure.backends.postgres.rights import Rights, remedy
from tenure.backends.shared.causes import alone, caused
from tenure.errors import SchemaMismatch, StoreError, StoreUnavailable

DIVISION_BY_ZERO = "22012"
UNIQUE_VIOLATION = "23505"
MOVED = "TN001"
"""Our own: `tenure copy` has moved the store, or is about to."""
_TOO_LONG = "25P03", "25P04"
"""The server has ended a transaction that took too long. To the driver that is no outage."""
QUEUE_FULL = (
    "the NOTIFY queue of the PostgreSQL server is full: a session that LISTENs, in any of its"
    f" databases, keeps its transaction open. `{NOWHERE.command('doctor')}` shows the oldest ones,"
    " and the server's log names the process. End it with SELECT pg_terminate_backend(pid), then"
    " empty the queue with SELECT pg_notification_queue_usage()."
)
TOO_MANY_CLIENTS = (
    "A process that runs a scheduler has 2 connections, up to 3 while it is busy, and one more as a"
    " deputy; a guard has 1. Raise the server's max_connections, or the CONNECTION LIMIT of the"
    " role or of the database; or run fewer processes; or put a pooler in between (PgBouncer)."
)
LOCK_TABLE = (
    "If it is the lock table, a session holds very many locks. As long as anyone can connect,"
    f" `{NOWHERE.command('doctor')}` names it. Otherwise look for it among the server's processes"
    " (ps shows role and database), and end it there with kill, or restart the server."
)
_LOCKS_FULL = "out of shared memory"
_TOO_MANY = (
    "too many clients",
    "remaining connection slots",
    "too many connections for",
    "no more connections allowed",
)
"""How the server or PgBouncer refuses one more connection; the driver does not give its code."""
_NOT_REACHED = ("failed to resolve host", "Connection refused", "timeout expired", "No such file")
_HBA = "Allow this address, user and database in its pg_hba.conf, or use sslmode=require."
_PASSWORD = "Check user and password in the URL, PGPASSWORD or ~/.pgpass."
_PORT = "What answers there is not PostgreSQL: check host and port in the URL."
_SETTINGS = (
    "unrecognized configuration parameter",
    "invalid value for parameter",
    "invalid integer value",
    "invalid sslmode value",
    "invalid target_session_attrs value",
    "definition of service",
    "channel binding required",
    "authentication method requirement",
    "GSSAPI encryption required",
)
"""What is wrong with a setting after the ? of a URL, in libpq's words or the server's."""
_REFUSALS: tuple[tuple[tuple[str, ...], str], ...] = (
    (('database "', "does not exist"), "Create it (createdb), or correct the URL."),
    (('role "', "does not exist"), "Create it (CREATE ROLE … LOGIN), or correct the user."),
    (("not permitted to log in",), "Allow it with ALTER ROLE … LOGIN, or use another role."),
    (("authentication failed",), _PASSWORD),
    (("no password supplied",), _PASSWORD),
    (("no pg_hba.conf entry",), _HBA),
    (("pg_hba.conf rejects",), _HBA),
    (
        ("permission denied for database",),
        "An administrator allows it with GRANT CONNECT ON DATABASE … TO ….",
    ),
    (
        ("not currently accepting connections",),
        "Allow them with ALTER DATABASE … ALLOW_CONNECTIONS true, or use another database.",
    ),
    (("invalid response to SSL negotiation",), _PORT),
    (("expected authentication request",), _PORT),
    (("server does not support SSL",), "Set sslmode=prefer in the URL, or turn TLS on there."),
    (("certificate verify failed",), "Name its CA in the URL: sslrootcert=/path/ca.pem."),
    (("does not match host name",), "Connect by a name that is in the server's certificate."),
    (("root certificate file",), "Set sslrootcert in the URL."),
    (("invalid port number",), "A port is a number from 1 to 65535: correct it in the URL."),
    *(((words,), "Correct it in the URL.") for words in _SETTINGS),
)
"""How the server refuses a connection for good, and what to do. Goes by the words: while
connecting, the driver does not give the server's code."""
UNPREPARED = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
"""Errors with prepared statements that show that the session is shared after all."""
_IN_A_TRIGGER = (
    "A trigger of yours needs it, it seems. Tenure's transactions have the search_path pg_catalog:"
    " name tables with their schema, or give the function a search_path of its own."
)
_REPEATED = re.compile(r"(invalid value for parameter \"\w+\"|invalid [a-z_ ]+):? \"[^\"]*\"")


def sqlstate(error: BaseException) -> str | None:
    """The server's error code, from an error of any driver, of SQLAlchemy's or of ours."""
    for said in (error, error.__cause__, getattr(error, "orig", None)):
        state = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        if state is not None:
            return str(state)
    return None


def cause(error: Exception) -> Exception:
    """The server's error behind a driver's. If the server refuses a commit, say because of a
    deferred trigger, the answer comes at the end of the pipeline, and the driver may complain that
    it cannot leave the pipeline."""
    refused = error.__context__
    return refused if isinstance(refused, psycopg.Error) and refused.sqlstate else error


def is_outdated(error: Exception) -> bool:
    """Has a prepared statement become invalid? A migration has changed a table, or a pooler has
    switched the session. Nothing was executed, so it can be repeated on a new connection."""
    if isinstance(error, psycopg.errors.FeatureNotSupported):
        # By the function in the server's source: its messages may be in any language.
        return error.diag.source_function == "RevalidateCachedQuery"
    return isinstance(error, UNPREPARED)


def is_queue_full(error: BaseException | None) -> bool:
    """Was a commit refused because it notifies? Goes by the function in the server's source, since
    its messages may be in any language."""
    return (
        isinstance(error, psycopg.errors.ProgramLimitExceeded)
        and error.diag.source_function == "PreCommit_Notify"
    )


def _advice(text: str) -> str:
    """What to do, if the server's message does not say it."""
    end = "" if text.endswith((".", "?")) else "."
    if _LOCKS_FULL in text:
        return f"{end} {LOCK_TABLE}"
    if any(words in text for words in _TOO_MANY):
        return f"{end} {TOO_MANY_CLIENTS}"
    if any(words in text for words in _NOT_REACHED):
        return f"{end} Check host and port in the URL, and whether the server is up."
    return ""


def _lasting(text: str) -> str | None:
    """What to do about a refusal that does not go away by itself; None if it may."""
    if any(words in text for words in _NOT_REACHED):
        return None  # there are several hosts, and another may answer later
    end = "" if text.endswith((".", "?")) else "."
    for words, advice in _REFUSALS:
        if all(word in text for word in words):
            return f"{end} {advice}"
    return None


def _forget_values(error: Exception) -> None:
    """Libpq's errors repeat the value of an unknown setting, which may be the end of a password
    with an & in it. Remove it."""
    if isinstance(error, psycopg.Error):
        error.args = tuple(
            _REPEATED.sub(r"\1", part) if isinstance(part, str) else part for part in error.args
        )


def refusal(text: str, rights: Rights | None) -> str:
    """What the role may not do, and how it gets the right."""
    who = lacks = ""
    if rights is not None and rights.rows:
        who, lacking = f" the role {rights.role!r}", rights.lacks_of(text)
        lacks = f" It lacks {lacking}." if lacking else ""
    return (
        f"PostgreSQL refused{who}: {text}.{lacks} {remedy(NOWHERE)} Tables are created by"
        f" `{NOWHERE.command('migrate')}`, as the owner of the schema."
    )


def translate(error: Exception, rights: Rights | None = None) -> NoReturn:
    """Raise the driver's error as one of ours, with what to do about it. `rights` are those of the
    role that was refused something, if known."""
    _forget_values(error)
    told = caused(_translated(error, rights), error)
    del error  # this frame is part of the traceback
    alone(told)


def _translated(error: Exception, rights: Rights | None) -> StoreError:
    text = " ".join(str(error).split())  # on one line, like all our errors
    if sqlstate(error) == MOVED and isinstance(error, psycopg.Error):
        return StoreError(f"PostgreSQL: {error.diag.message_primary}")  # without the function
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        if error.diag.internal_query is not None:
            return StoreError(f"PostgreSQL: {text}. {_IN_A_TRIGGER}")
        return SchemaMismatch(
            f"the database lacks something that this version needs ({text}). Run"
            f" `{NOWHERE.command('migrate')}`."
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreError(refusal(text, rights))
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return StoreUnavailable(
            "another session's open transaction has locked what was to be changed:"
            f" {text}. Nothing was changed; pg_stat_activity and pg_locks say who it is."
        )
    if isinstance(error, psycopg.errors.SequenceGeneratorLimitExceeded):
        return StoreError(
            f"PostgreSQL: {text}. No new row gets a number until the sequence is set back:"
            f" `{NOWHERE.command('doctor')}` names it, with the statement to do so."
        )
    if is_queue_full(error):
        return StoreUnavailable(f"{QUEUE_FULL} Nothing was changed.")
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return StoreUnavailable(
            f"PostgreSQL is read-only here: {text}. It is a replica, or"
            f" default_transaction_read_only is on: `{NOWHERE.command('doctor')}` says which."
        )
    if isinstance(error, psycopg.OperationalError | OSError) or sqlstate(error) in _TOO_LONG:
        if (advice := _lasting(text)) is not None:
            return StoreError(f"PostgreSQL refused the connection: {text}{advice}")
        return StoreUnavailable(f"PostgreSQL is not available: {text}{_advice(text)}")
    return StoreError(f"PostgreSQL: {text}")
