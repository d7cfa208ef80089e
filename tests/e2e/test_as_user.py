"""The stage `user` of scripts/test: another account, and what it needs within its reach."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import as_user
from tests.support.as_user import Place, User, ordinary_user, place_for, python_for
from tests.support.interpreters import SYSTEM, Interpreter
from tests.support.matrix import ROOT, CannotBeSetUp


@pytest.fixture
def user() -> Iterator[User]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with ordinary_user() as user:
        yield user


def writes_who_it_is(user: User) -> str:
    told = user.home / "tmp" / "told"
    text = f"id -u > {told}; id -G >> {told}; pwd >> {told}; echo $HOME $TMPDIR >> {told}"
    assert user.run("sh", "-c", text, cwd=user.home)
    return told.read_text()


def test_user_is_another_with_a_home_of_its_own(user: User) -> None:
    home = user.home
    assert writes_who_it_is(user) == f"{user.uid}\n{user.gid}\n{home}\n{home} {home}/tmp\n"
    assert user.uid != 0


def test_nothing_is_left_of_it() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with ordinary_user() as user:
        home = user.home
    assert not home.exists()


def test_success_and_failure_are_told_apart(user: User, tmp_path: Path) -> None:
    assert user.run("true")
    assert not user.run("false")
    closed = tmp_path / "program"
    closed.write_text("#!/bin/sh\n")
    closed.chmod(0o700)
    assert not user.run(closed)


def test_temporary_files_of_root_alone_are_not_used(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert as_user._open_folder() in (Path("/tmp"), Path("/var/tmp"))


def test_systems_python_is_preferred_then_the_newest_that_may_be_run(
    user: User,
) -> None:
    def python(name: str, *version: int, mode: int = 0o755) -> Interpreter:
        path = user.home / name
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
        return Interpreter(path, (version[0], version[1], version[2]))

    old, new = python("old", 3, 11, 0), python("new", 3, 13, 0)
    closed, past = python("closed", 3, 14, 0, mode=0o700), python("past", 3, 9, 0)
    assert python_for(user, [past, old, new, closed]) == new
    with pytest.raises(CannotBeSetUp, match=r"no Python 3\.11 or newer that other users may run"):
        python_for(user, [past, closed])
    system = Interpreter(SYSTEM, (3, 11, 2))
    if user.may_run(SYSTEM):
        assert python_for(user, [system, new]) == system


def test_tree_and_environment_are_used_as_they_are_if_they_may_be_read(
    user: User,
) -> None:
    environment = user.home / "python"
    environment.write_text("#!/bin/sh\n")
    environment.chmod(0o755)
    (user.home / "pyproject.toml").touch(0o644)
    assert place_for(user, user.home, environment) == Place(user.home, environment)


def test_closed_tree_is_copied_and_set_up_again(user: User, tmp_path: Path) -> None:
    """With a set-up that takes no time."""
    tree = tmp_path / "closed"
    for name in ("scripts", "build", ".venv"):
        (tree / name).mkdir(parents=True)
    (tree / "pyproject.toml").touch()
    setup = tree / "scripts" / "setup"
    setup.write_text('#!/bin/sh\nmkdir -p .venv/bin && echo "$PYTHON" > .venv/bin/python\n')
    setup.chmod(0o700)
    tree.chmod(0o700)
    tmp_path.chmod(0o700)
    place = place_for(user, tree, Path(sys.executable))
    assert place == Place(user.home / "tenure", user.home / "tenure/.venv/bin/python")
    assert sorted(path.name for path in place.tree.iterdir()) == [
        ".venv",
        "pyproject.toml",
        "scripts",
    ]
    assert Path(place.python.read_text().strip()).exists()
    assert {path.stat().st_uid for path in place.tree.rglob("*")} == {user.uid}


def test_what_cannot_be_set_up_is_said_and_a_failure_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    assert as_user.main() == as_user.NOT_RUN
    assert "not run: only root can become another user" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert as_user.main() == 1
    assert f"NOT_RUN={as_user.NOT_RUN} " in (ROOT / "scripts" / "test").read_text()
