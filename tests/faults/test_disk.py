"""The disk is full, or read-only: it is said clearly, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import Leases, StoreUnavailable
from tests.faults.support import TTL, Cluster, task

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)


class SmallDisk:
    """A file system of its own, in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        done = self._mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder))
        if done.returncode != 0:
            pytest.skip("this machine does not let us mount a small file system")

    def fill(self) -> None:
        """To the last byte."""
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError:
                    continue

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()

    def make(self, mode: str) -> None:
        done = self._mount("-o", f"remount,{mode}", str(self.folder))
        assert done.returncode == 0, done.stderr

    def close(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    def _mount(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    made = SmallDisk(tmp_path / "disk")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(tmp_path: Path, disk: SmallDisk) -> Iterator[Cluster]:
    """With its database on the small disk, and its journal on another."""
    made = Cluster(tmp_path, disk.folder / "tenure.db")
    try:
        yield made
    finally:
        made.end()
        print(made.logs())  # noqa: T201 - pytest shows it with a failure


def test_full_disk_is_told_and_nothing_is_lost(cluster: Cluster, disk: SmallDisk) -> None:
    for who in ("a", "b"):
        cluster.node(who, TICK, ttl=TTL)
    for who in ("a", "b"):
        cluster.journal.fact("node.started", who)
    leader = cluster.leader()
    cluster.journal.wait("end", schedule="tick", after=leader.at)

    disk.fill()

    told = cluster.journal.unavailable(f"the disk of {cluster.database} is full")
    assert "free some space" in told["error"]
    with Leases(cluster.url) as leases, pytest.raises(StoreUnavailable, match="is full"):
        leases.acquire("anything")
    # Long enough for every lease to have ended.
    cluster.journal.fact("lease.suspended", after=told.at)

    disk.make_room()

    recovered = cluster.journal.fact("store.recovered", after=told.at)
    cluster.journal.wait("end", schedule="tick", after=recovered.at)
    cluster.stop_all()
    assert cluster.store.sound()
    assert not cluster.journal.facts("service.failed")
    assert cluster.complaints() == []


def test_start_on_a_full_disk_is_refused_with_the_reason(cluster: Cluster, disk: SmallDisk) -> None:
    disk.fill()
    node = cluster.node("node", TICK, ttl=TTL)
    assert node.wait() == 1
    assert "StoreUnavailable" in node.output
    assert f"the disk of {cluster.database} is full" in node.output

    disk.make_room()
    cluster.node("again", TICK, ttl=TTL)
    cluster.journal.wait("end", "again", schedule="tick")
    assert cluster.complaints() == []


def test_read_only_disk_is_told_and_nothing_is_lost(cluster: Cluster, disk: SmallDisk) -> None:
    cluster.node("before", TICK, ttl=TTL)
    cluster.journal.wait("end", schedule="tick")
    cluster.stop_all()
    disk.make("ro")
    before = _digest(cluster.database)

    node = cluster.node("node", TICK, ttl=TTL)
    assert node.wait() == 1
    assert "StoreUnavailable" in node.output
    assert f"{cluster.database} cannot be written" in node.output
    assert "is mounted read-only. Mount the volume read-write" in node.output
    assert "Nothing was changed." in node.output
    with Leases(cluster.url) as leases, pytest.raises(StoreUnavailable, match="Mount the volume"):
        leases.acquire("anything")
    assert _digest(cluster.database) == before

    disk.make("rw")
    cluster.node("after", TICK, ttl=TTL)
    cluster.journal.wait("end", "after", schedule="tick")
    cluster.stop_all()
    assert cluster.complaints() == []


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
