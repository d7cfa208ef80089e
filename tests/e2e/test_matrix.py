"""scripts/test --matrix: what it chooses to run, and what it makes of the results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.markdown import table
from tests.support import interpreters, matrix, servers
from tests.support.interpreters import SYSTEM, Absent, Interpreter, chosen, supported
from tests.support.matrix import OLDER, ROOT, WHEELS, CannotBeSetUp, Combination, Outcome, Server


def python(*version: int) -> Interpreter:
    return Interpreter(Path("/somewhere/python"), (version[0], version[1], version[2]))


NO_11, NO_12, NO_13 = (Absent((3, minor)) for minor in (11, 12, 13))


def system(*version: int) -> Interpreter:
    return replace(python(*version), path=SYSTEM)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], [NO_11, NO_12, NO_13]),
        ([python(3, 10, 9)], [NO_11, NO_12, NO_13]),
        (
            [python(3, 11, 7), python(3, 12, 1), python(3, 13, 0)],
            [python(3, 11, 7), python(3, 12, 1), python(3, 13, 0)],
        ),
        (
            [python(3, 10, 1), python(3, 11, 7), system(3, 11, 2), python(3, 12, 1)],
            [system(3, 11, 2), python(3, 12, 1), NO_13],
        ),
        (
            [python(3, 11, 0), system(3, 11, 2), python(3, 12, 1), python(3, 13, 5)],
            [python(3, 11, 0), system(3, 11, 2), python(3, 12, 1), python(3, 13, 5)],
        ),
        (
            [python(3, 11, 7), python(3, 12, 1), python(3, 12, 3), system(3, 12, 2)],
            [python(3, 11, 7), system(3, 12, 2), python(3, 12, 3), NO_13],
        ),
        (
            [python(3, 9, 1), python(3, 14, 0), python(3, 13, 5)],
            [NO_11, NO_12, python(3, 13, 5), python(3, 14, 0)],
        ),
        ([system(3, 9, 2), python(3, 11, 7)], [python(3, 11, 7), NO_12, NO_13]),
    ],
)
def test_every_minor_version_is_chosen_and_the_systems_python(
    found: list[Interpreter], expected: list[Interpreter | Absent]
) -> None:
    assert chosen(found, [(3, 11), (3, 12), (3, 13)]) == expected


@pytest.mark.as_user
@pytest.mark.parametrize("name", ["closed", "closed/inner"])
def test_folder_on_path_that_may_not_be_read_is_passed_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything; scripts/test runs this again as an ordinary user")
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / name), os.environ["PATH"]]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / name))
    (tmp_path / "closed").chmod(0o000)
    try:
        found = list(interpreters._candidates())
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert Path(sys.base_prefix) in [path.parents[1] for path in found]


ON_OLD = Combination(python(3, 11, 7), WHEELS[0])
REST = Combination(python(3, 11, 7), None)
PASSED = Outcome(REST, passed=3)
FAILED = Outcome(ON_OLD, passed=2, failed=1)
NOT_RUN = Outcome(Combination(NO_11, WHEELS[0]), obstacle="no such Python")


@pytest.mark.parametrize(
    ("outcomes", "ci", "code"),
    [
        ([PASSED], False, 0),
        ([PASSED, NOT_RUN], False, 0),
        ([PASSED, NOT_RUN], True, 1),
        ([FAILED, PASSED], False, 1),
    ],
)
def test_exit_code(outcomes: list[Outcome], ci: bool, code: int) -> None:
    assert matrix.verdict(outcomes, ci=ci) == code


def test_table_tells_what_failed_and_what_was_not_run() -> None:
    _, passed, failed, not_run = matrix.table([PASSED, FAILED, NOT_RUN])
    assert passed.split()[-4:] == ["3", "0", "0", "0"]
    assert failed.split()[-5:] == ["2", "1", "0", "0", "FAILED"]
    assert not_run.startswith("Python 3.11, PostgreSQL 16 ")
    assert not_run.endswith(" NOT RUN: no such Python")


def test_results_are_counted_as_pytest_writes_them(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_passes(): pass\n"
        "def test_passes_too(): pass\n"
        "def test_fails(): assert False\n"
        "def test_skips(): pytest.skip('why not')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # not the one of this repository
    report = tmp_path / "report.xml"
    assert matrix.counted(report) == (0, 0, 0)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=50)
    assert matrix.counted(report) == (2, 1, 1)


def test_words_choose_combinations() -> None:
    valkey = Combination(python(3, 11, 7), WHEELS[-1])
    assert valkey.fits([])
    assert valkey.fits(["3.11", "Valkey"])
    assert valkey.fits(["redis"])
    assert not valkey.fits(["3.11", "postgresql"])


def test_every_test_of_the_contract_is_in_some_combination() -> None:
    named = {server.kind for server in WHEELS}
    rest = matrix.tests_of(REST)
    for path in (ROOT / "tests" / "contract").glob("test_*.py"):
        assert f"tests/contract/{path.name}" in rest or any(kind in path.name for kind in named)


@pytest.mark.parametrize("server", WHEELS, ids=str)
def test_servers_are_pinned(server: Server) -> None:
    assert server.package is not None
    assert matrix._pinned(server.package)


def test_rrule_is_compared_with_a_newer_dateutil_than_the_pinned_one() -> None:
    def major(version: str) -> int:
        return int(version.partition(".")[0])

    assert major(matrix.DATEUTIL) > major(matrix._pinned("python-dateutil"))


def test_what_is_not_pinned_or_not_that_version_is_not_run() -> None:
    with pytest.raises(CannotBeSetUp, match=r"constraints\.txt does not pin nonsense"):
        matrix._program(Server("Redis 6.2", "bin/redis-server", "nonsense"))
    with pytest.raises(CannotBeSetUp, match=r"is not Redis 6\.2: Python 3"):
        matrix._program(Server("Redis 6.2", sys.executable))
    with pytest.raises(CannotBeSetUp, match="No such file"):
        matrix._program(Server("Redis 6.2", "/nowhere/redis-server"))


def test_variables_choose_the_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for server in WHEELS:
        program = tmp_path / server.name / "program"
        for name, value in server.environment(program).items():
            monkeypatch.setenv(name, value)
        if server.is_postgres:
            assert servers._postgres_binaries() == program.parent
        else:
            assert servers._valkey_binary() == program


def test_versions_in_the_documentation_are_those_that_are_tested() -> None:
    rows = table(ROOT / "docs" / "stores.md", "", "tested with", "every change is tested with")
    documented = {
        f"{row['']} {number}" for row in rows for number in row["tested with"].split(", ")
    }
    assert {server.name for server in (*WHEELS, *OLDER)} <= documented
    assert {str(Absent(minor)) for minor in supported(ROOT)} <= documented


@pytest.mark.as_user
@pytest.mark.slow
def test_list_shows_every_server_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--list"]) == 0
    shown = capsys.readouterr().out
    for server in WHEELS:
        for major, minor in supported(ROOT):
            assert re.search(rf"Python {major}\.{minor}(\.\d+)?, {re.escape(server.name)}", shown)
    assert "===" not in shown


@pytest.mark.slow
def test_words_that_choose_nothing_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        matrix.main(["--list", "oracle"])
    assert "--list shows them all" in capsys.readouterr().err
