"""The Pythons of this machine: the system's, on PATH, and those that pyenv and uv keep."""

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
SYSTEM = Path("/usr/bin/python3")
_PROBE = """
import json, sqlite3, ssl, sys, sysconfig
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
    """Released Pythons, from old to new, one of each version: the system's, if it has that one."""
    known: dict[Version, Interpreter] = {}
    for path in _candidates():
        version = version_of(path)
        if version is not None:
            known.setdefault(version, Interpreter(path, version))
    return [known[version] for version in sorted(known)]


def chosen(found: Iterable[Interpreter], least: tuple[int, int]) -> list[Interpreter | None]:
    """The oldest that must work, the system's, and the newest; from old to new, each once.

    Patch editions count: what distributions ship is often older than what developers have. The
    first is None if the oldest minor version is not here at all.
    """
    usable = sorted((one for one in found if one.version[:2] >= least), key=lambda one: one.version)
    wanted = [*usable[:1], *(one for one in usable if one.path == SYSTEM), *usable[-1:]]
    once = sorted(set(wanted), key=lambda one: one.version)
    return [*([] if once and once[0].version[:2] == least else [None]), *once]


def _candidates() -> Iterator[Path]:
    seen = set[Path]()
    for path in _everywhere():
        real = path.resolve()
        if real not in seen and os.access(path, os.X_OK):
            seen.add(real)
            yield path


def _everywhere() -> Iterator[Path]:
    yield SYSTEM
    if named := shutil.which(os.environ.get("PYTHON", "")):
        yield Path(named)
    yield Path(sys.base_prefix) / "bin" / "python3"  # of the environment that runs this
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if entry.endswith("shims"):
            continue  # pyenv's own way to the versions below, and a slow one
        for path in _matching(Path(entry or "."), "python3*"):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                yield path.absolute()
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    for folder in (pyenv / "versions", uv):
        yield from _matching(folder, "*/bin/python3")


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Nothing, if this user may not look into it: PATH may name folders of another."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def version_of(path: Path) -> Version | None:
    """None: it does not run, lacks what Tenure needs, or is not what users have."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = json.loads(done.stdout) if done.returncode == 0 else None
    return (answer[0], answer[1], answer[2]) if answer else None
