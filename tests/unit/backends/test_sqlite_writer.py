"""Who holds a lock, from the text of /proc/locks; and which file system a folder is on."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.sqlite.filesystem import judge, mount_of
from tenure.backends.sqlite.locks import kernel_locks
from tenure.backends.sqlite.locks.kernel_locks import KernelLock, describe, parse
from tenure.backends.sqlite.locks.writer import find_readers, find_writer
from tenure.model import Severity
from tests.support.secrets import FORMS, check, urls

LOCKS = """\
1: FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF
2: POSIX  ADVISORY  READ 12 fe:00:77 120 120
3: POSIX  ADVISORY  WRITE 13 fe:00:77 121 122
4: POSIX  ADVISORY  WRITE 14 fe:00:77 120 120
4: -> POSIX  ADVISORY  WRITE 15 fe:00:77 120 120
5: POSIX  ADVISORY  WRITE 16 fe:00:78 100 EOF
6: POSIX  ADVISORY  WRITE 17 00:2a:79 120 120
7: POSIX  ADVISORY  WRITE 0 fe:00:80 120 120
8: OFDLCK ADVISORY  WRITE -1 fe:00:81 4096 4096
"""
DISK = os.makedev(0xFE, 0)


@pytest.mark.parametrize(
    ("inode", "byte", "pids"),
    [
        (77, 120, [12, 14]),
        (77, 122, [13]),
        (77, 123, []),
        (78, 5_000, [16]),
        (79, 120, [17]),
        (81, 4_096, [-1]),
        (99, 120, []),
    ],
    ids=["held", "range", "free", "to the end", "other device", "description", "other file"],
)
def test_holders_of_a_byte(inode: int, byte: int, pids: list[int]) -> None:
    found = [lock.pid for lock in parse(LOCKS, DISK, inode) if lock.covers(byte, byte)]
    assert found == pids


def test_locks_of_a_description_are_those_of_the_process_that_has_it() -> None:
    text = "pos:\t0\nino:\t81\nlock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:81 4096 4096\n"
    assert parse(text, DISK, 81, owner=21) == [KernelLock(21, True, 4096, 4096)]


def test_nobody_writes_to_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert find_writer(tmp_path / "jobs.db") is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_this_process_is_described() -> None:
    me = describe(os.getpid())
    assert me.pid == os.getpid()
    assert me.state == "running"
    assert not me.frozen


@pytest.mark.parametrize("form", [form for form in FORMS if "://" in form])
def test_a_password_in_its_command_is_not_told(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_locks, "_PROC", tmp_path)
    (tmp_path / "21").mkdir()
    (tmp_path / "21" / "stat").write_text("21 (app) S 1")
    for url in urls(form):
        words = ("app", "--url", url, f"--leases={url}", "last")
        (tmp_path / "21" / "cmdline").write_bytes("".join(f"{w}\0" for w in words).encode())
        told = str(describe(21))
        check(told, url)
        assert told.startswith("process 21 (app --url ")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_who_writes_is_seen_through_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real" / "jobs.db")
    with closing(sqlite3.connect(link, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("BEGIN IMMEDIATE")
        writer = find_writer(link)
        assert writer is not None
        assert writer.pid == os.getpid()
        assert find_readers(link) == {os.getpid()}


MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
server:/x /mnt/my\\040share nfs4 rw 0 0
/dev/vdb /mnt ext4 rw 0 0
/dev/vdc /mnt xfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("folder", "mount"),
    [
        ("/var/lib", ("/", "ext4")),
        ("/tmp/a/b", ("/tmp", "tmpfs")),
        ("/tmpfoo", ("/", "ext4")),
        ("/mnt/my share/jobs", ("/mnt/my share", "nfs4")),
        ("/mnt/other", ("/mnt", "xfs")),
    ],
)
def test_mount_of_a_folder(folder: str, mount: tuple[str, str]) -> None:
    assert mount_of(Path(folder), MOUNTS) == mount


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("ext4", Severity.OK),
        ("nfs4", Severity.PROBLEM),
        ("fuse.sshfs", Severity.PROBLEM),
        ("9p", Severity.WARNING),
        ("fuse.whatever", Severity.WARNING),
        ("tmpfs", Severity.WARNING),
        ("overlay", Severity.WARNING),
    ],
)
def test_file_systems_are_judged(kind: str, severity: Severity) -> None:
    finding = judge("/data", kind)
    assert finding.severity is severity
    assert (finding.remedy is None) is (severity is Severity.OK)
