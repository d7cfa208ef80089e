"""The Pythons of this machine: the system's, on PATH, and those that pyenv and uv keep."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Minor = tuple[int, int]
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


@dataclass(frozen=True)
class Absent:
    """A minor version that the project supports and this machine does not have."""

    version: Minor

    def __str__(self) -> str:
        return "Python " + ".".join(map(str, self.version))


def supported(root: Path) -> list[Minor]:
    """The Pythons that the project says it runs on, from old to new."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    named = re.findall(
        r":: Python :: (\d+)\.(\d+)$", "\n".join(project["classifiers"]), re.MULTILINE
    )
    found = sorted((int(major), int(minor)) for major, minor in named)
    assert project["requires-python"] == ">={}.{}".format(*found[0])
    return found


def minimum(root: Path) -> Minor:
    return supported(root)[0]


@cache
def installed() -> list[Interpreter]:
    """Released Pythons, from old to new, one of each version: the system's, if it has that one."""
    known: dict[Version, Interpreter] = {}
    for path in _candidates():
        version = version_of(path)
        if version is not None:
            known.setdefault(version, Interpreter(path, version))
    return [known[version] for version in sorted(known)]


def chosen(found: Iterable[Interpreter], wanted: Sequence[Minor]) -> list[Interpreter | Absent]:
    """One of each minor version from the oldest wanted on, and the system's; from old to new.

    Patch editions count: what distributions ship is often older than what developers have. So of
    the oldest minor version it is the oldest, and of the others the newest.
    """
    usable = [one for one in found if one.version[:2] >= wanted[0]]
    of_minor: dict[Minor, list[Interpreter]] = {minor: [] for minor in wanted}
    for one in sorted(usable, key=lambda one: one.version):
        of_minor.setdefault(one.version[:2], []).append(one)
    once: set[Interpreter | Absent] = {one for one in usable if one.path == SYSTEM}
    for minor, those in of_minor.items():
        once.add(those[0 if minor == wanted[0] else -1] if those else Absent(minor))
    return sorted(once, key=lambda one: one.version)


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
