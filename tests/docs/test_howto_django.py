"""The how-to for Django, followed word by word in a new project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import PATIENCE, until

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "howto" / "django.md"


def test_a_new_project_follows_the_page(tmp_path: Path) -> None:
    def call(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    call("-m", "django", "startproject", "shop", ".")
    call("manage.py", "startapp", "orders")
    said = dict[str, str]()
    for block in sorted(blocks(PAGE), key=lambda block: block.line):
        if block.language == "python":
            name = block.text.splitlines()[0].removeprefix("# ")
            before = (tmp_path / name).read_text() if "settings" in name else ""
            (tmp_path / name).write_text(before + block.text)
        for line in block.text.splitlines() if not block.language else ():
            program, *words = line.split()
            assert program == "python"
            if words == ["manage.py", "tenure", "run"]:
                _run_until_it_leads(tmp_path, words)
            else:
                said[" ".join(words[1:])] = call(*words)
    assert "no problems" in said["tenure doctor"]
    assert "nobody leads" in said["tenure doctor"]
    assert "OK" in said["test"]
    known = call("manage.py", "tenure", "run", "--help")
    assert "--reload" in known


def _run_until_it_leads(folder: Path, words: list[str]) -> None:
    """It goes on until it is told to stop."""
    log = folder / "run.log"
    with log.open("w") as output:
        node = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: "leader.took_office" in log.read_text(), "a leader")
        assert node.poll() is None, log.read_text()
        node.terminate()
        assert node.wait(PATIENCE) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()
