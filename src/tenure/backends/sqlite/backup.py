"""Copies the database while it is in use, with SQLite's own backup function.

It reads everything in one transaction, so the copy is the database as it was at one instant, even
while others write. Writers do not wait; only the log grows until the copy is complete.

The copy is made under another name, and renamed once it has been checked. So a file with the final
name is complete.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tenure.backends.sqlite.connection import translate
from tenure.backends.sqlite.rights import beside, share_rights
from tenure.errors import ConfigError, Conflict, StoreError

PAGES = 1_000
"""How many pages are copied between two calls of `progress`."""
PATIENCE = 30.0
_OWN = ("", "-wal", "-shm", "-journal", "-tenure")


def back_up(
    database: Path, target: Path, *, replace: bool, progress: Callable[[int, int], None]
) -> None:
    """Copy the database to `target`; calls `progress` with the pages done and the total."""
    try:
        _back_up(database, target, replace, progress)
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written: {error.strerror or error}. It was not changed. Name a"
            " file in a folder that this user may write to, or run it as another user."
        ) from error


def _back_up(
    database: Path, target: Path, replace: bool, progress: Callable[[int, int], None]
) -> None:
    _check(database, target, replace)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        _create(part)
        _copy(database, part, progress)
        _verify(part, database)
        file = os.open(part, os.O_RDWR)
        try:
            share_rights(file, database)
            os.fsync(file)
        finally:
            os.close(file)
        _check(database, target, replace)  # it may have taken an hour
        part.replace(target)
        _sync_folder(target.parent)
    finally:
        for leftover in (part, Path(f"{part}-journal")):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def _check(database: Path, target: Path, replace: bool) -> None:
    """Refuse what would overwrite something, before anything is done."""
    if not database.exists():
        raise StoreError(f"there is no database {database}. Check the URL and the working folder.")
    if not target.parent.is_dir():
        raise ConfigError(f"the folder {target.parent} does not exist. Create it, or name another.")
    if target.is_dir():
        raise ConfigError(f"{target} is a folder; name a file in it.")
    real = Path(os.path.realpath(target))
    own = [beside(database, ending) for ending in _OWN]
    if real in own or (target.exists() and target.samefile(database)):
        raise ConfigError(f"{target} is a file of the database itself. Name another one.")
    for ending in ("-wal", "-journal"):
        other = beside(target, ending)
        if other.exists():
            raise ConfigError(
                f"{other} exists: SQLite would take it for part of the copy. Is {target} a"
                " database in use? Name another file; or, if it is a leftover, delete it."
            )
    if not target.exists() and not target.is_symlink():
        return
    if not replace:
        raise Conflict(f"{target} exists already. Name another file, or replace it with --force.")
    if not target.is_file():
        raise ConfigError(f"{target} is not a plain file, and is not replaced. Name another one.")


def _create(part: Path) -> None:
    """Readable for this user only, until it gets the rights of the database."""
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(
            f"nothing can be written to {part.parent}: {error.strerror}. Name a file in a folder"
            " that this user may write to."
        ) from error


def _copy(database: Path, part: Path, progress: Callable[[int, int], None]) -> None:
    def tell(status: int, remaining: int, total: int) -> None:
        progress(total - remaining, total)

    uri = f"{database.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as source:
            source.isolation_level = None
            # In one transaction: otherwise SQLite starts the copy over after each write.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            _write(source, part, tell)
            source.execute("ROLLBACK")
    except sqlite3.Error as error:
        translate(error, database)


def _write(source: sqlite3.Connection, part: Path, tell: Callable[[int, int, int], None]) -> None:
    try:
        with closing(sqlite3.connect(part)) as copy:
            source.backup(copy, pages=PAGES, progress=tell)
    except sqlite3.Error as error:
        raise StoreError(
            f"the copy in {part.parent} could not be written: {error}. Nothing was left there; is"
            " the disk full?"
        ) from error


def _verify(part: Path, database: Path) -> None:
    uri = f"{part.absolute().as_uri()}?mode=ro&immutable=1"  # so that nothing appears beside it
    try:
        with closing(sqlite3.connect(uri, uri=True)) as copy:
            said = [row[0] for row in copy.execute("PRAGMA integrity_check")]
    except sqlite3.Error as error:
        said = [str(error)]
    if said != ["ok"]:
        raise StoreError(
            f"the copy is damaged, and so may {database} be: {'; '.join(map(str, said[:3]))}."
            " Nothing was left behind. Check the database itself: PRAGMA integrity_check."
        )


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut."""
    if os.name == "nt":
        return
    with suppress(OSError):  # it is there; some folders can be written and not read
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
