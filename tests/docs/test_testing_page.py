"""The tests that docs/testing.md shows, as a user runs them: copied into a file, and pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks

SHOWN = "\n".join(
    block.text
    for block in blocks(ROOT / "docs" / "testing.md")
    if block.language == "python" and not block.options
)


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-W", "error", "-q", *options]
    done = subprocess.run(
        command, cwd=folder, text=True, capture_output=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_first_test_is_green_as_it_stands(tmp_path: Path) -> None:
    first = blocks(ROOT / "docs" / "testing.md")[0].text
    (tmp_path / "test_app.py").write_text(first)
    assert "1 passed" in run(tmp_path, "-p", "no:asyncio")
    assert [path.name for path in tmp_path.glob("*.db")] == []


@pytest.mark.slow
def test_all_of_them_are_green(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(SHOWN)
    loop = "asyncio_default_fixture_loop_scope=function"
    said = run(tmp_path, "-o", "asyncio_mode=strict", "-o", loop)
    assert f"{SHOWN.count('def test_')} passed" in said
