"""Several users, and what others left behind: the files beside a database, and who may use them.

Root may do everything. So where the tests run as root, a child process becomes another user first.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import pytest

from tests.e2e.command import EXECUTABLE, PATIENCE, Node, at_hand, tenure, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's users and /proc")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as several users")
ANN, BOB, TEAM = 64_001, 64_002, 64_100

START = """
    import os, sys, tempfile
    from tenure import Scheduler, TenureError
    with tempfile.TemporaryDirectory() as folder, Scheduler(f"sqlite:///{folder}/tenure.db"):
        pass  # all that is needed has been imported: another user may not reach the interpreter
    url, user, group, umask = sys.argv[1], *map(int, sys.argv[2:])
    os.umask(umask)
    if user != os.geteuid():
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    try:
        with Scheduler(url):
            print("started", flush=True)
            sys.stdin.read()
    except TenureError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other users can get into, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="tenure-rights-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@contextmanager
def scheduler(
    database: Path, user: int | None = None, group: int = TEAM, umask: int = 0o022
) -> Iterator[str]:
    """A scheduler of that user, running; and what it said at its start."""
    user = os.geteuid() if user is None else user
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(START), f"sqlite:///{database}"]
        + [str(number) for number in (user, group, umask)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def rights(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, S_IMODE(found.st_mode)


@as_root
def test_users_of_one_group_share_a_database(folder: Path) -> None:
    os.chown(folder, ANN, TEAM)
    folder.chmod(0o2770)
    database = folder / "tenure.db"
    with scheduler(database, ANN, umask=0o002) as first:
        assert first == "started"
    database.chmod(0o660)
    (folder / "tenure.db-tenure").unlink()
    with scheduler(database, BOB, umask=0o077) as second:
        assert second == "started"
        for ending in ("-tenure", "-wal", "-shm"):
            assert rights(Path(f"{database}{ending}")) == (BOB, TEAM, 0o660)
        with scheduler(database, ANN) as third:
            assert third == "started"


@as_root
def test_root_that_came_first_locks_nobody_out(folder: Path) -> None:
    os.chown(folder, ANN, TEAM)
    database = folder / "tenure.db"
    with scheduler(database, ANN) as first:
        assert first == "started"
    (folder / "tenure.db-tenure").unlink()
    assert at_hand(folder, "leases", "list", "--url", f"sqlite:///{database}").code == 0
    assert rights(folder / "tenure.db-tenure") == (ANN, TEAM, 0o600)
    with scheduler(database, ANN) as again:
        assert again == "started"


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv, of util-linux")
def test_root_that_may_give_nothing_away_uses_what_all_may_write(folder: Path) -> None:
    """As in a container without capabilities."""
    folder.chmod(0o777)
    database = folder / "tenure.db"
    with scheduler(database, ANN) as first:
        assert first == "started"
    database.chmod(0o666)
    (folder / "tenure.db-tenure").unlink()
    without = "-chown,-fowner"
    humble = ("setpriv", "--bounding-set", without, "--inh-caps", without)
    done = subprocess.run(
        [*humble, EXECUTABLE, "leases", "list", "--url", f"sqlite:///{database}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rights(folder / "tenure.db-tenure") == (0, 0, 0o666)
    with scheduler(database, ANN) as again:
        assert again == "started"


@as_root
def test_another_users_umask_is_named_with_the_remedy(folder: Path) -> None:
    folder.chmod(0o777)
    database = folder / "tenure.db"
    with scheduler(database, ANN, umask=0o077) as first, scheduler(database, BOB) as second:
        assert first == "started"
        assert second.startswith(f"StoreUnavailable: {database} cannot be written")
        assert f"belongs to uid {ANN}, group gid {TEAM}, mode 0600" in second
        assert f"this process is uid {BOB}" in second
        assert "chmod g+rw" in second


@as_root
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-tenure"])
def test_a_file_beside_it_that_is_anothers_is_named(folder: Path, ending: str) -> None:
    folder.chmod(0o777)
    database = folder / "tenure.db"
    with scheduler(database, ANN, umask=0):
        database.chmod(0o666)
        for name in ("-wal", "-shm", "-tenure"):
            Path(f"{database}{name}").chmod(0o600 if name == ending else 0o666)
        with scheduler(database, BOB) as said:
            assert f"{database}{ending} is not readable and writable for this user" in said


READER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.lockf(file, fcntl.LOCK_SH)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def reader(path: Path) -> Iterator[int]:
    """A process that has locked all of the file, for reading."""
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
    finally:
        process.communicate(timeout=PATIENCE)


APP = """
from tenure import Scheduler
scheduler = Scheduler("sqlite:///tenure.db")
"""


@pytest.mark.parametrize("complete", [True, False])
def test_a_start_that_a_reader_keeps_from_locking_says_who_it_is(
    tmp_path: Path, complete: bool
) -> None:
    (tmp_path / "app.py").write_text(APP)
    url = ("--url", "sqlite:///tenure.db")
    assert at_hand(tmp_path, "migrate", *url).code == 0
    lock_file = tmp_path / "tenure.db-tenure"
    if not complete:
        lock_file.write_bytes(b"")
    with reader(lock_file) as pid:
        answer = tenure(tmp_path, "run", "app:scheduler")
        assert answer.code == 1, answer
        assert f"is locked by process {pid} ({sys.executable}" in answer.err
        assert "Traceback" not in answer.err
        found = at_hand(tmp_path, "doctor", *url)
        assert found.code == 1
        assert f"is locked by process {pid} (" in found.out


def test_a_start_that_waits_for_a_lock_obeys_sigterm(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    assert at_hand(tmp_path, "migrate", "--url", "sqlite:///tenure.db").code == 0
    lock_file = tmp_path / "tenure.db-tenure"
    lock_file.write_bytes(b"")
    with reader(lock_file):
        node = Node(tmp_path, "app:scheduler")
        until(lambda: _has_open(node.pid, lock_file), "the lock file to be open")
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(timeout=PATIENCE) in (0, 1, -signal.SIGTERM)


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(
            link.is_symlink() and link.readlink() == path
            for link in Path(f"/proc/{pid}/fd").iterdir()
        )
    except FileNotFoundError:
        return False
