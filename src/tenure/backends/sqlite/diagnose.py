"""What `tenure doctor` asks of a SQLite store. Nothing here creates or changes anything.

The database is opened through SQLite only, never as a plain file: closing that would drop the
POSIX locks of this process's connections.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

from tenure.backends.sqlite import migrate
from tenure.backends.sqlite.connection import OLDEST_SQLITE, Connection, command
from tenure.backends.sqlite.filesystem import check_file_system, check_space
from tenure.backends.sqlite.lockfile import LockFile
from tenure.backends.sqlite.writer import Writer, find_writer
from tenure.clock import SystemClock
from tenure.errors import StoreUnavailable, TenureError
from tenure.model import Finding, Severity

PATIENCE = 1.0
WAL_LARGE = 256 * 1024**2
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
_real = SystemClock()


async def diagnose(path: Path, lock_file: Path) -> list[Finding]:
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
        findings.append(_lock_file(lock_file))
        findings.append(await _write_lock(connection, path))
        findings += _log(path)
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
    """What is to be said about the file, and whether it can be looked into."""
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
    for what in (path, path.parent):
        if not os.access(what, os.R_OK | os.W_OK):
            return Finding(
                "file",
                _PROBLEM,
                f"{what} is not readable and writable for this user (uid {_uid()})",
                "SQLite writes the file and, beside it, -wal and -shm: give this user both the"
                " file and its folder, or run as the user that the scheduler runs as.",
            ), os.access(path, os.R_OK)
    return Finding("file", _OK, f"{path}, {_size(path.stat().st_size)}, writable"), True


def _uid() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "?"


def _inside(c: sqlite3.Connection, path: Path) -> list[Finding]:
    (mode,) = c.execute("PRAGMA journal_mode").fetchone()
    return [_schema(c, path), _journal(mode)]


def _schema(c: sqlite3.Connection, path: Path) -> Finding:
    try:
        migrate.check(c)
    except TenureError as error:
        return Finding("schema", _PROBLEM, str(error))
    done, lacking = migrate.applied(c), migrate.pending(c)
    if lacking:
        names = ", ".join(f"{number:04d}_{name}" for number, name, _ in lacking)
        text = f"pending: {names}" if done else "there are no tables of Tenure in this database"
        remedy = f"Run `{command(path, 'migrate')}`, or start a scheduler on it."
        return Finding("schema", _PROBLEM, text, remedy)
    return Finding("schema", _OK, f"version {migrate.MAJOR}.{done[-1][0]}, up to date")


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


def _lock_file(path: Path) -> Finding:
    if not path.exists():
        return Finding(
            "lock file",
            _WARNING,
            f"{path.name} is not there: a killed leader is noticed only after its ttl",
            "The next start of a scheduler creates it. If it should be there, something deleted it:"
            " keep it beside the database.",
        )
    try:
        file = LockFile.open(path)
        try:
            slot = file.take_slot()
            if slot is not None:
                file.free_slot(slot)
        finally:
            file.close()
    except OSError as error:
        return Finding(
            "lock file",
            _PROBLEM,
            f"{path} cannot be locked: {error.strerror or error}",
            "It must be writable for every user that runs Tenure on this database, on a file"
            " system with POSIX locks.",
        )
    if slot is None:
        return Finding("lock file", _OK, "not used on this platform: the ttl decides")
    return Finding("lock file", _OK, f"{path.name} is there and can be locked")


async def _write_lock(connection: Connection, path: Path) -> Finding:
    """Try to write; if that fails for a while, say who is in the way."""
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


def _blocked(writer: Writer | None) -> Finding:
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
            f"Nothing is written until it goes on (kill -CONT {writer.pid}) or ends"
            f" (kill -KILL {writer.pid}); what it was writing is then rolled back, nothing is lost."
        )
    else:
        remedy = (
            "Its transaction is long. If it does not end by itself, end that process; its"
            " unfinished transaction is rolled back."
        )
    return Finding("write lock", _PROBLEM, f"held for {PATIENCE:g} s or more by {writer}", remedy)


def _log(path: Path) -> list[Finding]:
    wal = path.with_name(path.name + "-wal")
    try:
        size = wal.stat().st_size
    except OSError:
        return []
    if size < WAL_LARGE:
        return []
    return [
        Finding(
            "log size",
            _WARNING,
            f"{wal.name} has grown to {_size(size)}: a reader keeps it from being folded in",
            "Look for a process that leaves a read transaction open on this file, and end it.",
        )
    ]


def _size(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB" if size >= 1024**2 else f"{size / 1024:,.0f} KiB"
