"""Which file system a database is on, and whether that will do.

SQLite's write-ahead log needs file locks and memory that processes really share. Network file
systems only pretend to have both. Temporary ones lose the file with the container or the machine.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tenure.model import Finding, Severity

# fmt: off
NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "gpfs",
    "beegfs", "davfs", "ncpfs", "fuse.sshfs", "fuse.s3fs", "fuse.mount-s3", "fuse.gcsfuse",
    "fuse.blobfuse2", "fuse.rclone", "fuse.glusterfs", "fuse.davfs2", "fuse.juicefs",
))
# fmt: on
HOST_SHARED = frozenset(("9p", "virtiofs", "vboxsf", "prl_fs", "drvfs", "fakeowner", "osxfs"))
THROW_AWAY = {
    "tmpfs": "lives in memory and is gone when the machine restarts",
    "ramfs": "lives in memory and is gone when the machine restarts",
    "overlay": "is the container's own layer and is gone with the container",
    "aufs": "is the container's own layer and is gone with the container",
}
LITTLE, TOO_LITTLE = 200 * 1024**2, 20 * 1024**2
_MOUNTS = Path("/proc/self/mounts")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def check_file_system(folder: Path) -> Finding:
    try:
        mounts = _MOUNTS.read_text(errors="replace")
    except OSError:
        return Finding("file system", Severity.OK, "its type cannot be told on this platform")
    point, kind = mount_of(folder.resolve(), mounts)
    return judge(point, kind)


def mount_of(folder: Path, mounts: str) -> tuple[str, str]:
    """The mount point and type that a folder is on; a later mount hides an earlier one."""
    best = ("/", "unknown")
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[1])
        if folder.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, fields[2])
    return best


def judge(point: str, kind: str) -> Finding:
    where = f"{kind} at {point}"
    if kind in NETWORK:
        return Finding(
            "file system",
            Severity.PROBLEM,
            f"{where} is a network file system: SQLite's locks are not reliable on it",
            "Move the database to a local disk or block volume; for several machines use a"
            " database server.",
        )
    if kind in HOST_SHARED or kind.startswith("fuse"):
        return Finding(
            "file system",
            Severity.WARNING,
            f"{where} is shared with a host or served by a program: locks may not reach the"
            " other side",
            "Keep every process on this side of the share, or move the file to a local disk or"
            " a named volume.",
        )
    if kind in THROW_AWAY:
        return Finding(
            "file system",
            Severity.WARNING,
            f"{where} {THROW_AWAY[kind]}",
            "Put the database on a disk or a mounted volume if it must survive that.",
        )
    return Finding("file system", Severity.OK, where)


def check_space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = (
        f"{free / 1024**3:,.1f} GiB free" if free > 1024**3 else f"{free / 1024**2:,.0f} MiB free"
    )
    if free < LITTLE:
        severity = Severity.PROBLEM if free < TOO_LITTLE else Severity.WARNING
        return Finding("disk space", severity, text, f"Free some space on the disk of {folder}.")
    return Finding("disk space", Severity.OK, text)
