"""What the pages show can be run: Python blocks, shell commands, the example of the README."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import markdown
from tests.docs.commands import check
from tests.docs.markdown import ROOT, Block, blocks, inline_code, pages

README = ROOT / "README.md"

# All blocks of a page are one program. "python compile" marks those that need what is not here.
RUNNER = """
import json, sys
space = {"__name__": "documentation"}
for page, line, text in json.load(sys.stdin):
    exec(compile("\\n" * (line - 1) + text, page, "exec"), space)
"""


def _python(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


PAGES = [pytest.param(page, id=markdown.name(page)) for page in pages()]
WITH_PYTHON = [pytest.param(page, id=markdown.name(page)) for page in pages() if _python(page)]


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_readme_shows_the_quickstart_example() -> None:
    example = (ROOT / "examples" / "quickstart.py").read_text()
    assert _python(README)[0].text == example
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_blocks_run(page: Path, tmp_path: Path) -> None:
    shown = _python(page)
    assert {block.options for block in shown} <= {"", "compile"}
    for block in shown:
        compile(block.text, block.place, "exec")
    program = [(str(page), block.line, block.text) for block in shown if not block.options]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER],
        input=json.dumps(program),
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_have_a_language_that_is_known(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= {"", "ini", "python", "yaml"}


@pytest.mark.parametrize("page", PAGES)
def test_named_commands_exist(page: Path) -> None:
    for command in _commands(page):
        check(shlex.split(command, comments=True))


def _commands(page: Path) -> list[str]:
    """Shell commands in indented blocks (what follows two spaces is their explanation) and inline.

    Of inline code only what looks like a command: lower case, with arguments or options.
    """
    shown = [
        re.split(r" {2,}", line)[0]
        for block in blocks(page)
        if not block.language
        for line in block.text.splitlines()
    ]
    commands = [text for text in shown + inline_code(page) if _is_command(text)]
    assert markdown.name(page) not in ("README.md", "docs/operations.md") or commands
    return commands


def _is_command(text: str) -> bool:
    return bool(re.match(r"(tenure [a-z]|scripts/\w|python examples/)", text))
