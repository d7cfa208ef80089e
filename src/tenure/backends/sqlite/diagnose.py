"""What `tenure doctor` asks of a SQLite store. Nothing here creates or changes anything.

The database is opened through SQLite only, never as a plain file: closing that would drop the
POSIX locks of this process's connections.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from tenure.backends.address import Address
from tenure.backends.shared import bad_rows, copy_marks
from tenure.backends.shared.ledger import MAJOR, edited
from tenure.backends.shared.numbering import is_number
from tenure.backends.sqlite import migrate
from tenure.backends.sqlite.connection import LARGEST_LOG, OLDEST_SQLITE, Connection, command
from tenure.backends.sqlite.filesystem import check_file_system, check_space
from tenure.backends.sqlite.locks.kernel_locks import Process, describe
from tenure.backends.sqlite.locks.lockfile import LockFile, lock_file_of
from tenure.backends.sqlite.locks.writer import find_readers, find_writer
from tenure.backends.sqlite.rights import beside, find_obstacle
from tenure.backends.urls import of_sqlite
from tenure.errors import StoreUnavailable, TenureError
from tenure.model import Finding, Severity
from tenure.process.clock import SystemClock, from_micros

PATIENCE = 1.0
WAL_LARGE = 2 * LARGEST_LOG
"""Much larger than a log that is emptied now and then."""
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
_real = SystemClock()


async def diagnose(path: Path) -> list[Finding]:
    """Each check needs the ones before it; the first that stops the rest ends the list."""
    findings = [_sqlite()]
    if not path.parent.is_dir():
        return [*findings, _no_folder(path)]
    findings += [check_file_system(path.parent), check_space(path.parent)]
    file, usable = _file(path)
    findings.append(file)
    if not usable:
        return findings
    connection = Connection(path, "tenure-doctor")
    try:
        await connection.open(create=False)
        findings += await connection.read(lambda c: _inside(c, path))
        findings.append(_lock_file(path))
        findings.append(await _write_lock(connection, path))
        findings += await _log(path)
        findings += await connection.read(lambda c: _rows(c, path))
    except TenureError as error:
        findings.append(Finding("open", _PROBLEM, str(error)))
    finally:
        await connection.close()
    return findings


def _sqlite() -> Finding:
    oldest = ".".join(map(str, OLDEST_SQLITE))
    text = f"SQLite {sqlite3.sqlite_version} (needs {oldest} or newer)"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding("SQLite", _PROBLEM, text, "Use a Python build with a newer SQLite.")
    return Finding("SQLite", _OK, text)


def _no_folder(path: Path) -> Finding:
    return Finding(
        "file",
        _PROBLEM,
        f"the folder {path.parent} does not exist",
        "Create it, or correct the URL: three slashes are relative, four are absolute"
        " (sqlite:////var/lib/app/tenure.db).",
    )


def _file(path: Path) -> tuple[Finding, bool]:
    """A finding about the file, and whether it can be opened."""
    if path.is_dir():
        return Finding("file", _PROBLEM, f"{path} is a folder", "Name a file in it."), False
    if not path.exists():
        return Finding(
            "file",
            _PROBLEM,
            f"there is no database {path}",
            f"Check the URL and the working folder ({Path.cwd()}); if it should be there:"
            f" `{command(path, 'migrate')}`",
        ), False
    obstacle = find_obstacle(path)
    if obstacle is not None:
        return Finding("file", _PROBLEM, obstacle.text, obstacle.remedy), False
    return Finding("file", _OK, f"{path}, {_size(path.stat().st_size)}, writable"), True


def _inside(c: sqlite3.Connection, path: Path) -> list[Finding]:
    (mode,) = c.execute("PRAGMA journal_mode").fetchone()
    known = migrate.meta(c) if migrate.has_table(c, "tenure_meta") else {}
    return [_schema(c, path), _journal(mode), *copy_marks.finding(known)]


def _schema(c: sqlite3.Connection, path: Path) -> Finding:
    try:
        migrate.check(c)
    except TenureError as error:
        return Finding("schema", _PROBLEM, str(error))
    done, lacking = migrate.applied(c), migrate.pending(c)
    if lacking and not done and migrate.has_table(c, "tenure_schedule"):
        lost = edited(lacking[0], migrate.PREFIX, "its tables are there")
        return Finding("schema", _PROBLEM, str(lost))
    if lacking:
        names = ", ".join(f"{number:04d}_{name}" for number, name, _ in lacking)
        text = f"pending: {names}" if done else "this database has no Tenure tables"
        remedy = f"Run `{command(path, 'migrate')}`, or start a scheduler on it."
        return Finding("schema", _PROBLEM, text, remedy)
    return Finding("schema", _OK, f"version {MAJOR}.{max(done)}, up to date")


def _rows(c: sqlite3.Connection, path: Path) -> list[Finding]:
    """Impossible values, in all tables."""
    findings: list[Finding] = []
    address = Address(of_sqlite(path))
    for table in _tables(c):
        keys = ", ".join(f"{key} DESC" for key in table.keys)
        query = f"SELECT * FROM {table.full} ORDER BY {keys} LIMIT {bad_rows.MOST_ROWS}"  # noqa: S608
        findings += bad_rows.examine(table, c.execute(query), from_micros, address)
    findings += _sequences(c)
    return findings or [Finding("rows", _OK, "nothing is in them that cannot be there")]


def _sequences(c: sqlite3.Connection) -> list[Finding]:
    query = "SELECT name, seq FROM sqlite_sequence WHERE name GLOB 'tenure_*' ORDER BY 1"
    found = []
    for name, seq in c.execute(query).fetchall():
        (key,) = (
            column["name"] for column in c.execute(f'PRAGMA table_info("{name}")') if column["pk"]
        )
        if not is_number(seq):
            set_to = f"UPDATE sqlite_sequence SET seq = {{highest}} WHERE name = '{name}'"  # noqa: S608
            where = f"sqlite_sequence.seq of {name}"
            found.append(bad_rows.of_sequence(where, seq, name, key, set_to))
    return found


def _tables(c: sqlite3.Connection) -> list[bad_rows.Table]:
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'tenure_*' ORDER BY 1"
    )
    found = []
    for (full,) in c.execute(query).fetchall():
        columns = c.execute(f'PRAGMA table_info("{full}")').fetchall()
        keys = [column["name"] for column in columns if column["pk"]]
        found.append(
            bad_rows.Table(
                full.removeprefix(migrate.PREFIX),
                full,
                tuple(
                    bad_rows.Column(
                        column["name"], bad_rows.kind_of(column["type"], column["name"])
                    )
                    for column in columns
                ),
                tuple(keys or [columns[0]["name"]]),
            )
        )
    return found


def _journal(mode: str) -> Finding:
    if mode == "wal":
        return Finding("journal", _OK, "write-ahead log (WAL)")
    return Finding(
        "journal",
        _WARNING,
        f"journal mode is {mode}: readers and the writer block each other",
        "The next start of a scheduler sets WAL; if it does not stay, something else that uses"
        " this file sets it back.",
    )


def _lock_file(database: Path) -> Finding:
    path = lock_file_of(database)
    if not path.exists() and not path.is_symlink():
        return Finding(
            "lock file",
            _WARNING,
            f"{path.name} is not there: a killed leader is noticed only after its ttl",
            "The next start of a scheduler creates it. If it should be there, something deleted it:"
            " keep it beside the database.",
        )
    try:
        file = LockFile.open(database)
        try:
            slot = file.take_slot()
            if slot is not None:
                file.free_slot(slot)
        finally:
            file.close()
    except TenureError as error:
        return Finding("lock file", _PROBLEM, str(error))
    except OSError as error:
        return Finding(
            "lock file",
            _PROBLEM,
            f"{path} cannot be locked: {error.strerror or error}",
            "It must be on a file system with POSIX locks.",
        )
    if slot is None:
        return Finding("lock file", _OK, "not used on this platform: the ttl decides")
    return Finding("lock file", _OK, f"{path.name} is there and can be locked")


async def _write_lock(connection: Connection, path: Path) -> Finding:
    """Try to write; if that fails for a while, name the process that blocks it."""
    begun = _real.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            await connection.write(lambda c: None)
    except TimeoutError:
        return _blocked(find_writer(path))
    except StoreUnavailable as error:
        return Finding("write lock", _PROBLEM, str(error))
    took = (_real.monotonic() - begun) * 1000
    return Finding("write lock", _OK, f"free; had it after {took:.0f} ms")


def _blocked(writer: Process | None) -> Finding:
    if writer is None:
        return Finding(
            "write lock",
            _PROBLEM,
            f"nobody could write for {PATIENCE:g} s, and the writer cannot be seen from here",
            "It may run in another container or as another user: look for a stopped or hanging"
            " process there (`fuser` or `lsof` on the database file).",
        )
    if writer.frozen:
        remedy = (
            f"Nothing is written until it continues (kill -CONT {writer.pid}) or ends"
            f" (kill -KILL {writer.pid}); what it was writing is then rolled back, nothing is lost."
        )
    else:
        remedy = (
            "Its transaction is long. If it does not end by itself, end that process; its"
            " unfinished transaction is rolled back."
        )
    return Finding("write lock", _PROBLEM, f"held for {PATIENCE:g} s or more by {writer}", remedy)


async def _log(path: Path) -> list[Finding]:
    wal = beside(path, "-wal")
    try:
        size = wal.stat().st_size
    except OSError:
        return []
    if size < WAL_LARGE:
        return []
    text = f"{wal.name} has grown to {_size(size)}: a long read kept it from being emptied"
    # Most reads take milliseconds. A process that reads now and a moment later may be the cause.
    first = find_readers(path)
    await _real.sleep(PATIENCE)
    readers = sorted(first & find_readers(path))
    if not readers:
        remedy = (
            "If it does not shrink by itself, look for a process that leaves a read transaction"
            " open on this file, perhaps in another container (`fuser` or `lsof` on the database"
            " file)."
        )
        return [Finding("log size", _WARNING, text, remedy)]
    named = "; ".join(str(describe(pid)) for pid in readers)
    remedy = (
        "Have it end its read transaction (commit, close the cursor or the connection), or end that"
        " process. The log shrinks with one of the next writes."
    )
    return [Finding("log size", _WARNING, f"{text}. Reading now: {named}", remedy)]


def _size(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB" if size >= 1024**2 else f"{size / 1024:,.0f} KiB"
