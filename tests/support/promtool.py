"""Prometheus' own tool: what it says about rules and expressions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: object) -> str:
    """What it says; fails if it does not agree. A visible skip where it is not installed, and in CI
    a failure."""
    program = shutil.which("promtool")
    if program is None:
        missing = "promtool is not installed: apt-get install prometheus"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_rules(rules: Path) -> str:
    return promtool("check", "rules", rules)
