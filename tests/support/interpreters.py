"""The Pythons of this machine: on PATH, and those that pyenv and uv keep."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Version = tuple[int, int, int]
_PROBE = """
import ensurepip, json, sqlite3, ssl, sys, sysconfig, venv
plain = (
    sys.prefix == sys.base_prefix
    and sys.version_info.releaselevel == "final"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
print(json.dumps(list(sys.version_info[:3]) if plain else None))
"""


@dataclass(frozen=True)
class Interpreter:
    path: Path
    version: Version

    def __str__(self) -> str:
        return "Python " + ".".join(map(str, self.version))


def minimum(root: Path) -> tuple[int, int]:
    """The oldest Python that the project says it runs on."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    found = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    assert found is not None, project["requires-python"]
    return int(found[1]), int(found[2])


@cache
def installed() -> list[Interpreter]:
    """Released Pythons that can make environments; of each minor version the newest."""
    newest: dict[tuple[int, int], Interpreter] = {}
    for path in _candidates():
        version = _version(path)
        if version is None:
            continue
        known = newest.get(version[:2])
        if known is None or version > known.version:
            newest[version[:2]] = Interpreter(path, version)
    return sorted(newest.values(), key=lambda found: found.version)


def oldest_and_newest(
    found: Iterable[Interpreter], least: tuple[int, int]
) -> tuple[Interpreter | None, Interpreter | None]:
    """The one of the oldest version that must work, if it is here, and the newest beyond it."""
    usable = [one for one in found if one.version[:2] >= least]
    oldest = next((one for one in usable if one.version[:2] == least), None)
    newest = max(usable, key=lambda one: one.version, default=None)
    return oldest, None if newest == oldest else newest


def _candidates() -> Iterator[Path]:
    seen = set[Path]()
    for path in _everywhere():
        real = path.resolve()
        if real not in seen and os.access(path, os.X_OK):
            seen.add(real)
            yield path


def _everywhere() -> Iterator[Path]:
    if chosen := shutil.which(os.environ.get("PYTHON", "")):
        yield Path(chosen)
    yield Path(sys.base_prefix) / "bin" / "python3"  # of the environment that runs this
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if entry.endswith("shims"):
            continue  # pyenv's own way to the versions below, and a slow one
        for path in sorted(Path(entry or ".").glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                yield path.absolute()
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    for folder in (pyenv / "versions", uv):
        yield from sorted(folder.glob("*/bin/python3"))


def _version(path: Path) -> Version | None:
    """None: it does not run, cannot make environments, or is not what users have."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = json.loads(done.stdout) if done.returncode == 0 else None
    return (answer[0], answer[1], answer[2]) if answer else None
