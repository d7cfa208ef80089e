"""Checks whether this user may use the files of a database, before anything is opened.

Nothing here opens the database, its `-wal` or `-shm`: closing them again would drop the locks that
SQLite has on them in this process.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenure.backends.address import Address, quoted
from tenure.backends.urls import of_sqlite
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import RoleScript

if sys.platform != "win32":
    import grp
    import pwd

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FLAGS |= getattr(os, "O_NONBLOCK", 0)  # if there is a pipe in its place, do not wait
_AS_WE_ARE = os.access in os.supports_effective_ids


def beside(database: Path, ending: str) -> Path:
    """A file that belongs to the database. Like SQLite's own, it is beside the file itself, even
    if the path is a link."""
    return Path(os.path.realpath(database) + ending)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What this user may not do, and what to do about it."""

    text: str
    remedy: str


def find_obstacle(database: Path) -> Obstacle | None:
    """The first of the files, or their folder, that this user cannot use."""
    files = [beside(database, ending) for ending in ("", "-wal", "-shm", "-tenure")]
    for link in (file for file in files[1:3] if file.is_symlink()):
        # SQLite does not follow it either, but says only that it cannot open the database.
        return Obstacle(
            f"{link} is a symbolic link, and may lead to any file; it was left alone",
            "Find out who put it there. While nothing runs on this database, delete it: the next"
            " start makes a file in its place. If it leads to a -wal that was moved away, move that"
            " back instead: it has what was committed last.",
        )
    for needed in (files[0].parent, *files):
        found = _refused(needed)
        if found is None or needed.is_symlink():
            continue  # a lock file that is a link is refused for being one
        if _read_only(needed):
            return Obstacle(
                f"{needed} is on a file system that is mounted read-only",
                "Mount the volume read-write, or correct the URL.",
            )
        return Obstacle(
            f"{needed} is not readable and writable for this user: {_owner(found)}",
            "Make the file, its -wal, -shm and -tenure and their folder writable for this user (a"
            " common group, chmod g+rw, and chmod g+s on the folder), or run as the user that the"
            " others run as.",
        )
    return None


def open_lock_file(path: Path, database: Path, largest: int) -> int:
    """A descriptor of the lock file, which is created if it is missing.

    Nothing is written to a file that may not be ours: one behind a symbolic or hard link, one that
    is too long for a lock file, or one that belongs to a user who may not write the database.
    """
    for _ in range(100):
        try:
            file = os.open(path, _FLAGS)
        except FileNotFoundError:
            try:
                file = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue  # another process was faster
            except OSError as error:
                raise _cannot(path, error) from error
        except OSError as error:
            raise _cannot(path, error) from error
        try:
            if os.fstat(file).st_nlink == 0:
                os.close(file)
                continue  # it was deleted just now
            _check(file, path, database, largest)
            give_rights(file, database)
        except BaseException:
            os.close(file)
            raise
        return file
    raise StoreUnavailable(
        f"the lock file {path} keeps disappearing. Leave it in place, and try again."
    )


def give_rights(file: int, database: Path) -> None:
    """Give the lock file to the users who may write the database, and to no others.

    Users who may only read the database get nothing: to read a lock file is to be able to lock it.
    """
    if sys.platform == "win32":
        return
    model = database.stat()
    if os.geteuid() == 0:
        with suppress(OSError):  # a container's root may lack that right: its mode must do
            os.fchown(file, model.st_uid, model.st_gid)
    mode = 0o600
    if model.st_mode & stat.S_IWGRP and _in_its_group(file, model):
        mode |= 0o060
    if model.st_mode & stat.S_IWOTH:
        mode |= 0o066
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        with suppress(PermissionError):  # another's: it is for its owner to change
            os.fchmod(file, mode)


def share_rights(file: int, database: Path) -> None:
    """Let those read and write a copy who may read and write the database."""
    if sys.platform == "win32":
        return
    model = database.stat()
    mode = stat.S_IMODE(model.st_mode) & 0o666
    os.fchmod(file, mode if _in_its_group(file, model) else mode & ~0o060)


def _in_its_group(file: int, database: os.stat_result) -> bool:
    """Does the file belong to the database's group? Gives it to that group if this user may."""
    if sys.platform != "win32" and os.fstat(file).st_gid != database.st_gid:
        with suppress(OSError):
            os.fchown(file, -1, database.st_gid)
    return os.fstat(file).st_gid == database.st_gid


def _check(file: int, path: Path, database: Path, largest: int) -> None:
    own, model = os.fstat(file), database.stat()
    if not stat.S_ISREG(own.st_mode) or own.st_size > largest:
        what = "is no lock file of Tenure"
    elif own.st_nlink > 1:
        what = f"has {own.st_nlink} names (hard links)"
    elif not _may_own(own, model):
        what = f"belongs to {_user(own.st_uid)}, who may not write the database"
    else:
        return
    raise StoreError(
        f"{path} {what}; it was left alone. Find out who put it there; then delete it while nothing"
        " runs on this database: the next start creates it again."
    )


def _may_own(own: os.stat_result, database: os.stat_result) -> bool:
    if sys.platform == "win32":
        return True
    if own.st_uid in (os.geteuid(), database.st_uid, 0):
        return True
    # Users who share a database share its group, and only a member can give a file to a group.
    shared = database.st_mode & stat.S_IWGRP and own.st_gid == database.st_gid
    return bool(shared or database.st_mode & stat.S_IWOTH)


def _cannot(path: Path, error: OSError) -> StoreError:
    if path.is_symlink():
        return StoreError(
            f"{path} is a symbolic link, and may lead to any file; it was left alone. Find"
            " out who put it there, then delete it: the next start makes a file in its place."
        )
    found = _found(path)
    rights = f" ({_owner(found)})" if found is not None else ""
    return StoreUnavailable(
        f"the lock file {path} cannot be opened: {error.strerror}{rights}. It is beside the"
        " database and must be writable for every user that runs Tenure on it. Give it to the"
        " owner of the database, or delete it while nothing runs: the next start creates it."
    )


def _refused(path: Path) -> os.stat_result | None:
    """What is there, if this user may not read and write it.

    SQLite deletes its files and makes them again at any moment. The answer of `access`, which is
    also a refusal if nothing is there, counts only for a file that was there before and after.
    """
    found = _found(path)
    while found is not None:
        rights = os.R_OK | os.W_OK | (os.X_OK if stat.S_ISDIR(found.st_mode) else 0)
        if os.access(path, rights, effective_ids=_AS_WE_ARE):
            return None
        again = _found(path)
        if again is not None and _same(found, again):
            return found
        found = again
    return None


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_ctime_ns) == (other.st_ino, other.st_ctime_ns)


def _read_only(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _owner(found: os.stat_result) -> str:
    if sys.platform == "win32":
        return "its rights do not allow it"
    mode = stat.S_IMODE(found.st_mode)
    return (
        f"it belongs to {_user(found.st_uid)}, group {_group(found.st_gid)}, mode {mode:04o}; this"
        f" process is {_user(os.geteuid())}, group {_group(os.getegid())}"
    )


def _user(uid: int) -> str:
    if sys.platform != "win32":
        with suppress(KeyError):
            return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    return f"uid {uid}"


def _group(gid: int) -> str:
    if sys.platform != "win32":
        with suppress(KeyError):
            return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    return f"gid {gid}"


def role_script(database: Path) -> RoleScript:
    """Commands that keep out everyone but the members of a group: all that a file system can."""
    folder = quoted(str(database.parent))
    files = " ".join(quoted(str(database) + ending) for ending in ("", "-wal", "-shm", "-tenure"))
    commands = (
        f"chgrp tenure {folder}\n"
        f"chmod u=rwx,g=rwxs,o= {folder}\n"
        f"for file in {files}; do\n"
        '  [ ! -e "$file" ] || { chgrp tenure "$file" && chmod u=rw,g=rw,o= "$file"; }\n'
        "done"
    )
    advice = (
        "SQLite has no roles: a user who can open the file can change everything in it, and reading"
        " it needs the right to write beside it. These shell commands give the file and its folder"
        " to the group tenure (groupadd tenure; usermod -aG tenure USER for each user that runs"
        " nodes or edits). Keep the database in a folder of its own. For readers make a copy:"
        f" `{Address(of_sqlite(database)).command('backup', 'COPY.db')}`. For roles use PostgreSQL."
    )
    return RoleScript(commands, advice)
