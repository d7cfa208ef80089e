"""Other people's packages: built, and installed where Tenure is a package like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.e2e.command import Answer

WHEELS = Path(sys.prefix) / "wheels"
PATIENCE = 120.0


class Environment:
    """An environment of its own, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "venv" / "bin"

    def run(self, program: str, *args: object, code: int = 0, **environ: str) -> Answer:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "PYTHON"))}
        done = subprocess.run(
            [self.programs / program, *map(str, args)],
            cwd=self.folder,
            env={**kept, "NO_COLOR": "1", **environ},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert answer.code == code, answer
        return answer


def _here(*args: object) -> None:
    subprocess.run(
        [sys.executable, "-m", *map(str, args)],
        check=True,
        timeout=PATIENCE,
        stdout=subprocess.DEVNULL,
    )


def installed(folder: Path, example: Path) -> Environment:
    """Nothing in it but wheels: Tenure's, the example's, and what the contract needs."""
    if not list(WHEELS.glob("hypothesis-*.whl")):
        lacking = f"{WHEELS} has no wheels to install from, offline: run scripts/setup"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(lacking)
    built = folder / "built"
    pip = ("pip", "--quiet", "--disable-pip-version-check")
    offline = ("--no-index", "--find-links", WHEELS, "--find-links", built)
    _here(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", built, ROOT, example)
    _here("venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    [wheel] = [each for each in built.glob("*.whl") if not each.name.startswith("tenure-")]
    _here(
        *(*pip, "--python", python, "install", "--no-compile", *offline),
        *("--constraint", ROOT / "constraints.txt", f"{wheel}[test]"),
    )
    return Environment(folder)


def pass_contract(environment: Environment, example: Path) -> Answer:
    """Run the example's tests as its author does, with no file of this repository."""
    [tests] = example.glob("test_*.py")
    (environment.folder / tests.name).write_text(tests.read_text())
    memory = Path("/dev/shm")  # some wait for the disk at each change, and others use it too
    scratch = memory if os.access(memory, os.W_OK) else environment.folder
    answer = environment.run(
        *("python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"),
        *("-c", example / "pyproject.toml", "--rootdir", ".", tests.name),
        TMPDIR=str(scratch),
    )
    assert "failed" not in answer.out
    where = environment.run("python", "-c", "import tenure; print(tenure.__file__)").out
    assert str(environment.programs.parent) in where
    return answer
