"""The code of earlier commits of this repository, for tests of databases and nodes of before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIRST = "88d5ec087bd4eae3f826efea439431030221f981"
"""Made tables that all later versions can use: its nodes live through a rollout of theirs."""
BEFORE = "fff79e2b13e0b8390c7bb7a17663ca61d0f51420"
"""Made tables that no version can use any more: its ledger has no digests."""


def code_of(commit: str, folder: Path) -> Path:
    """Put the packages of that commit into the folder, and its tests beside them. A visible skip
    without the history; in CI a failure."""
    git = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src", "tests"]
    try:
        tar = subprocess.run(git, capture_output=True, timeout=60, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        missing = f"the code of commit {commit[:12]} is not here; a clone with its history has it"
        if os.environ.get("CI"):
            raise AssertionError(missing) from error
        pytest.skip(missing)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=tar, timeout=60, check=True)
    return folder / "src"


def begin(code: Path, program: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    """Start a program, given as text, with that code in place of ours."""
    check = f"import tenure; assert tenure.__file__.startswith({str(code)!r}), tenure.__file__\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(code), str(ROOT)])}
    return subprocess.Popen(
        [sys.executable, "-c", check + program, *arguments], text=True, env=environment, **more
    )
