"""The stage `user` of scripts/test: for root, some tests again as an ordinary user.

Nothing is forbidden to root, so root does not see what people see. The machine's accounts stay as
they are: the user is `nobody`, with a temporary home. It uses this tree and `.venv` if it can. If
the tree is closed to other users, it is copied. If the Python of `.venv` is, as pyenv's in root's
home, the system's takes its place.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support import interpreters, matrix
from tests.support.interpreters import SYSTEM, Interpreter
from tests.support.matrix import ROOT, CannotBeSetUp, say

ACCOUNT = "nobody"
NOT_RUN = 77
"""The exit code by which scripts/test knows."""
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "build", "dist")


@dataclass(frozen=True)
class User:
    """An account without rights of its own, and a folder that it owns."""

    uid: int
    gid: int
    home: Path

    def run(
        self, *command: str | Path, cwd: Path = Path("/"), quiet: bool = False, **variables: str
    ) -> bool:
        """To its end; did it succeed?"""
        mine = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "USER": ACCOUNT,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.home / "hypothesis"),
        }
        shown = subprocess.DEVNULL if quiet else None
        with suppress(PermissionError):  # it may not be executed, or not by this user
            return not subprocess.run(
                list(map(str, command)),
                cwd=cwd,
                env={**os.environ, **mine, **variables},
                user=self.uid,
                group=self.gid,
                extra_groups=[],
                umask=0o022,
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
                check=False,
            ).returncode
        return False

    def may_run(self, python: Path, statement: str = "") -> bool:
        return self.run(python, "-c", statement, quiet=True)


@contextmanager
def ordinary_user() -> Iterator[User]:
    """For root alone: whoever else runs the tests is one."""
    if os.geteuid() != 0:
        raise CannotBeSetUp("only root can become another user, and only root needs to")
    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise CannotBeSetUp(f"this machine has no user {ACCOUNT}") from None
    home = Path(tempfile.mkdtemp(prefix="tenure-user-", dir=_open_folder()))
    try:
        (home / "tmp").mkdir()
        user = User(account.pw_uid, account.pw_gid, home)
        _give(user, home)
        if not user.run("true", cwd=home):
            raise CannotBeSetUp(f"this root may not run anything as {ACCOUNT}")
        yield user
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _open_folder() -> Path:
    """Where temporary files go, if every user can get there: $TMPDIR may be root's own."""
    for folder in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents)):
            return folder
    raise CannotBeSetUp("no folder for temporary files is open to other users")


def _give(user: User, folder: Path) -> None:
    """Everything in it becomes the user's own, whatever root's umask was."""
    for parent, _, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in files)):
            os.chown(path, user.uid, user.gid)
            path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))


# -- what it runs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A tree, and the Python of an environment for it, both within the user's reach."""

    tree: Path
    python: Path


def place_for(user: User, root: Path = ROOT, python: Path = Path(sys.executable)) -> Place:
    """This tree and environment, if the user can read them; else what can be had in their place."""
    shared = user.run("cat", root / "pyproject.toml", quiet=True)
    if shared and user.may_run(python, "import pytest, tenure"):
        return Place(root, python)
    other = python_for(user, interpreters.installed())
    if shared:
        return Place(root, matrix.environment(other))
    say(f"{root} is closed to other users: copying it ...")
    tree = user.home / "tenure"
    shutil.copytree(root, tree, ignore=_NOT_COPIED)
    _give(user, tree)
    if not user.run("scripts/setup", cwd=tree, PYTHON=str(other.path)):
        raise CannotBeSetUp(f"scripts/setup failed under {other}")
    return Place(tree, tree / ".venv" / "bin" / "python")


def python_for(user: User, found: Sequence[Interpreter]) -> Interpreter:
    """The system's, else the newest that the user may run."""
    least = interpreters.minimum(ROOT)
    usable = [one for one in found if one.version[:2] >= least and user.may_run(one.path)]
    if not usable:
        raise CannotBeSetUp(
            f"this machine has no Python {least[0]}.{least[1]} or newer that other users may run."
            " Install the system's, on Debian and Ubuntu python3 and python3-venv"
        )
    return max(usable, key=lambda one: (one.path == SYSTEM, one.version))


def main() -> int:
    try:
        with ordinary_user() as user:
            place = place_for(user)
            say(f"as {ACCOUNT}, in {place.tree}, with {place.python}")
            jobs = ("-n", os.environ.get("TEST_JOBS") or "2", "--dist", "worksteal")
            pytest = (place.python, "-m", "pytest", "-p", "no:cacheprovider", *jobs)
            return int(not user.run(*pytest, "tests", "-m", "as_user", cwd=place.tree))
    except CannotBeSetUp as error:
        say(f"not run: {error}.")
        return 1 if os.environ.get("CI") else NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
