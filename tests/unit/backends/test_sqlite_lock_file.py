"""The lock file: its locks among processes of either kind, its rights, and who is in the way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import pytest

from tenure.backends.sqlite import SQLiteBackend, rights
from tenure.backends.sqlite.locks import bytelocks, lockfile
from tenure.backends.sqlite.locks.bytelocks import ByteLocks, locks_of
from tenure.backends.sqlite.locks.lockfile import SIZE, LockFile, lock_file_of
from tenure.errors import StoreError, StoreUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's locks and /proc")

if sys.platform == "linux":
    from tenure.backends.sqlite.locks.bytelocks import DescriptionLocks, PosixLocks

    KINDS: list[Callable[[int], ByteLocks]] = [DescriptionLocks, PosixLocks]

SLOT = (1 << 20) + 12_345

LOCKER = """
import fcntl, os, sys
from tenure.backends.sqlite.locks import bytelocks
path, kind, *bytes_ = sys.argv[1:]
if kind == "shared":
    file = os.open(path, os.O_RDONLY)
    fcntl.lockf(file, fcntl.LOCK_SH)
else:
    locks = getattr(bytelocks, kind)(os.open(path, os.O_RDWR))
    print(*(locks.take(int(byte)) for byte in bytes_), flush=True)
print("ready", flush=True)
for line in sys.stdin:
    print(locks.is_free(int(line)), flush=True)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    path.touch(0o640)
    return path


@contextmanager
def another_process(path: Path, kind: str, *bytes_: int) -> Iterator[subprocess.Popen[str]]:
    """One that locks these bytes, or with "shared" all of the file for reading, and then answers
    whether a byte is free."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(path), kind, *map(str, bytes_)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if kind != "shared":
            assert set(process.stdout.readline().split()) <= {"True"}
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def says_free(process: subprocess.Popen[str], byte: int) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{byte}\n")
    process.stdin.flush()
    return process.stdout.readline() == "True\n"


def open_files(folder: Path) -> list[str]:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    paths = [link.readlink() for link in links]
    return [path.name for path in paths if path.parent == folder.resolve()]


# -- locks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", ["DescriptionLocks", "PosixLocks"])
@pytest.mark.parametrize("theirs", ["DescriptionLocks", "PosixLocks"])
def test_either_kind_sees_the_other(database: Path, ours: str, theirs: str) -> None:
    """During a rollout processes of both kinds share a file."""
    file = os.open(database, os.O_RDWR)
    locks: ByteLocks = getattr(bytelocks, ours)(file)
    assert locks.take(SLOT)
    with another_process(database, theirs, SLOT + 1) as other:
        assert not locks.is_free(SLOT + 1)
        assert not locks.take(SLOT + 1)
        assert locks.is_free(SLOT + 2)
        assert not says_free(other, SLOT)
        assert says_free(other, SLOT + 2)
        locks.free(SLOT)
        assert says_free(other, SLOT)
    assert locks.is_free(SLOT + 1), "the kernel frees what a killed process had"
    os.close(file)


@pytest.mark.parametrize("kind", ["DescriptionLocks", "PosixLocks"])
def test_only_locks_of_a_description_outlast_a_copy(database: Path, kind: str) -> None:
    file = os.open(database, os.O_RDWR)
    locks: ByteLocks = getattr(bytelocks, kind)(file)
    assert locks.take(SLOT)
    with another_process(database, "PosixLocks") as other:
        assert not says_free(other, SLOT)
        database.read_bytes()  # opens, reads, closes
        assert says_free(other, SLOT) is not locks.lasting
        assert locks.take(SLOT)
        assert not says_free(other, SLOT)
    os.close(file)


def test_the_best_kind_is_used(database: Path) -> None:
    file = os.open(database, os.O_RDWR)
    assert isinstance(locks_of(file), DescriptionLocks)
    os.close(file)


def test_a_slot_that_was_dropped_is_taken_again_with_a_renewal(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockfile, "locks_of", PosixLocks)  # as on a kernel without the others
    file = LockFile.open(database)
    slot = file.take_slot()
    assert slot is not None
    with another_process(file.path, "PosixLocks") as other:
        file.path.read_bytes()
        assert says_free(other, slot)
        assert file.affirm(slot) == slot
        assert not says_free(other, slot)
        assert not file.is_free(slot), "one's own is never free"
    file.close()


# -- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o600, 0o600), (0o640, 0o600), (0o644, 0o600), (0o660, 0o660), (0o666, 0o666)],
    ids=oct,
)
def test_those_may_use_it_who_may_write_the_database(
    database: Path, umask: int, mode: int, expected: int
) -> None:
    """To read a lock file is to be able to lock it: who may only read the database may not."""
    database.chmod(mode)
    before = os.umask(umask)
    try:
        file = LockFile.open(database)
    finally:
        os.umask(before)
    assert S_IMODE(file.path.stat().st_mode) == expected
    file.close()


def test_rights_of_an_earlier_version_are_set_right(database: Path) -> None:
    path = lock_file_of(database)
    path.touch(0o666)
    path.chmod(0o666)
    LockFile.open(database).close()
    assert S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_root_makes_it_for_the_owner_of_the_database(database: Path) -> None:
    os.chown(database, 65534, 65533)
    database.chmod(0o660)
    LockFile.open(database).close()
    found = lock_file_of(database).stat()
    assert (found.st_uid, found.st_gid, S_IMODE(found.st_mode)) == (65534, 65533, 0o660)
    os.chown(lock_file_of(database), 0, 0)  # as an earlier version left it
    LockFile.open(database).close()
    assert lock_file_of(database).stat().st_uid == 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
@pytest.mark.parametrize(
    ("mode", "group", "welcome"),
    [(0o600, 0, False), (0o660, 1, False), (0o660, 0, True), (0o666, 1, True)],
    ids=["nobody's", "another group's", "the database's group", "everybody's"],
)
def test_a_file_of_a_user_who_may_not_write_the_database_is_refused(
    database: Path, mode: int, group: int, welcome: bool
) -> None:
    database.chmod(mode)
    path = lock_file_of(database)
    path.touch()
    os.chown(path, 65534, group)
    if welcome:
        LockFile.open(database).close()
        return
    with pytest.raises(StoreError, match="may not write the database; it was left alone"):
        LockFile.open(database)
    assert path.stat().st_size == 0


def test_a_link_is_not_followed(database: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_bytes(b"")
    lock_file_of(database).symlink_to(private)
    with pytest.raises(StoreError, match="is a symbolic link"):
        LockFile.open(database)
    assert private.read_bytes() == b""
    lock_file_of(database).unlink()
    lock_file_of(database).symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is a symbolic link"):
        LockFile.open(database)
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_lock_file_is_left_alone(database: Path, tmp_path: Path) -> None:
    path = lock_file_of(database)
    long = b"precious" * SIZE
    path.write_bytes(long)
    with pytest.raises(StoreError, match="is no lock file of Tenure"):
        LockFile.open(database)
    assert path.read_bytes() == long
    path.unlink()
    (tmp_path / "other").write_bytes(b"short")
    path.hardlink_to(tmp_path / "other")
    with pytest.raises(StoreError, match="has 2 names"):
        LockFile.open(database)
    assert path.read_bytes() == b"short"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is no lock file of Tenure"):
        LockFile.open(database)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreUnavailable, match="Is a directory"):
        LockFile.open(database)


async def test_a_database_behind_a_link_has_one_lock_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    real, link = tmp_path / "data" / "a.db", tmp_path / "b.db"
    link.symlink_to(real)
    backends = [SQLiteBackend(link), SQLiteBackend(real)]
    for backend in backends:
        await backend.open()
    assert backends[0]._lock_file is backends[1]._lock_file
    assert not (tmp_path / "b.db-tenure").exists()
    for backend in backends:
        await backend.close()


# -- somebody is in the way -----------------------------------------------------------------------


def test_a_readers_lock_does_not_hold_up_who_finds_the_file_complete(database: Path) -> None:
    LockFile.open(database).close()
    with another_process(lock_file_of(database), "shared") as reader:
        file = LockFile.open(database)
        with pytest.raises(StoreUnavailable, match=rf"locked by process {reader.pid} \("):
            file.take_slot()
        file.close()


@pytest.mark.parametrize("kind", ["shared", "DescriptionLocks"])
def test_who_keeps_a_new_file_from_being_written_is_named_in_time(
    database: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockfile, "PATIENCE", 0.2)
    path = lock_file_of(database)
    path.touch()
    with another_process(path, kind, *([SIZE - 16] if kind != "shared" else [])) as other:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match=rf"locked by process {other.pid} \("):
            LockFile.open(database)
        assert time.monotonic() - begun < 30
    LockFile.open(database).close()


async def test_a_start_that_fails_at_the_lock_file_leaves_nothing_open(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "a.db")
    await backend.open()
    await backend.close()
    with another_process(lock_file_of(tmp_path / "a.db"), "shared"):
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="is locked by process"):
                await SQLiteBackend(tmp_path / "a.db").open()
        assert not [name for name in open_files(tmp_path) if name.startswith("a.db")]


async def test_a_start_that_is_given_up_does_not_leave_it_open(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockfile, "PATIENCE", 60.0)
    backend = SQLiteBackend(database)
    path = lock_file_of(database)
    path.touch()
    with another_process(path, "shared") as other:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await backend.open()
        other.kill()
        other.wait()
    deadline = time.monotonic() + 30
    while _descriptors(path):
        assert time.monotonic() < deadline, "it is still open"
        await asyncio.sleep(0.01)


def _descriptors(path: Path) -> list[str]:
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return [link for link in links if link == str(path)]


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("leads_to", ["private", "nowhere"])
async def test_link_in_place_of_a_file_of_sqlite_is_named(
    tmp_path: Path, ending: str, leads_to: str
) -> None:
    """SQLite does not follow it either, and says only that the database cannot be opened."""
    path = tmp_path / "jobs.db"
    backend = SQLiteBackend(path)
    await backend.open()
    await backend.close()
    (tmp_path / "private").write_bytes(b"private")
    (tmp_path / f"jobs.db{ending}").symlink_to(tmp_path / leads_to)
    with pytest.raises(StoreError, match=f"jobs.db{ending} is a symbolic link") as refused:
        await SQLiteBackend(path).open()
    assert "delete it" in str(refused.value)
    told = [f"{finding.text} {finding.remedy}" for finding in await backend.diagnose()]
    assert any(f"jobs.db{ending} is a symbolic link" in text for text in told), told
    assert (tmp_path / "private").read_bytes() == b"private"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_disappears_while_it_is_looked_at_is_no_obstacle(
    database: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """As the last connection of another thread does with the -wal, and the next one's start."""
    wal = Path(f"{database}-wal")
    wal.touch()
    access = os.access

    def closed_just_now(path: Path, *rights: int, **more: bool) -> bool:
        if Path(path) != wal:
            return access(path, *rights, **more)
        wal.unlink(missing_ok=True)
        allowed = access(path, *rights, **more)
        if again:
            wal.touch()
            monkeypatch.undo()
        return allowed

    database.touch()
    monkeypatch.setattr(os, "access", closed_just_now)
    assert rights.find_obstacle(database) is None
    assert wal.exists() == again
