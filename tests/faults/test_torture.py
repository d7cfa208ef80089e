"""Everything at once: 200 schedules each second, while their leaders come to harm in turn.

Every harm once, on every store; `scripts/torture` goes on for as long as you like. Whatever
happens: no occurrence is fired twice, none is unaccounted for, none is early.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.support import ROOT, until
from tests.faults.torture.__main__ import main
from tests.faults.torture.arena import STORES
from tests.faults.torture.report import HARMS, Report, table
from tests.faults.torture.run import Torture

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

OF_LEADERS = {"kill", "freeze"}
DONE = {
    "sqlite": OF_LEADERS,
    "postgres": OF_LEADERS | {"cut", "restart"},
    "redis": OF_LEADERS | {"cut", "restart", "restart empty", "flush"},
    "redis-postgres": set(HARMS),
}


@pytest.mark.parametrize("store", STORES)
def test_every_promise_is_kept(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    code = main(["0", "--store", store, "--seed", "1", "--json", str(file)])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    written = json.loads(file.read_text())
    report = written["stores"][store]
    assert written["kept"]
    assert report["verdict"] == "kept"
    # The faults were real: each was done, and changed who leads.
    assert set(report["harms"]) == DONE[store]
    assert min(report["harms"].values()) > 0
    assert report["terms"] > len(OF_LEADERS)
    # And so was the work.
    assert report["occurrences"]["fired"] > 500
    assert report["executed"] > 500
    assert 0 < report["late_p50"] <= report["late_p99"] <= report["late_worst"]
    assert report["recovery_worst"]
    assert report["duplicates"] == report["unaccounted"] == 0
    # It can be watched, and read.
    assert f"{store}: " in shown.err
    assert "seed 1" in shown.err
    for line in ("leader killed (SIGKILL)", "duplicates", "unaccounted", "promises"):
        assert line in shown.out


def test_a_broken_promise_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that forgets one occurrence is found out: exit code 1, with what and where."""
    monkeypatch.setattr(Torture, "_end", _end_and_forget_one)
    file = tmp_path / "report.json"
    assert main(["0", "--store", "sqlite", "--json", str(file)]) == 1
    shown = capsys.readouterr()
    assert "BROKEN on sqlite: t" in shown.err
    assert "is accounted for 0 times" in shown.err
    report = json.loads(file.read_text())
    assert not report["kept"]
    assert report["stores"]["sqlite"]["unaccounted"] == 1
    folder = Path(shown.err.rpartition("logs, journal and database: ")[2].strip())
    assert (folder / "journal").exists()
    assert (folder / "node-1.log").exists()


_end = Torture._end


def _end_and_forget_one(torture: Torture) -> None:
    _end(torture)
    forgotten = "DELETE FROM tenure_occurrence WHERE run_id = (SELECT min(id) FROM tenure_run)"
    with torture._arena.store().connect() as connection:
        assert connection.execute(forgotten).rowcount == 1


@pytest.mark.parametrize(
    ("number", "store"), [(signal.SIGINT, "redis-postgres"), (signal.SIGTERM, "redis")]
)
def test_stopped_by_hand_it_leaves_nothing_behind(number: signal.Signals, store: str) -> None:
    """As Ctrl-C does it: the signal goes to all of its processes."""
    command = [sys.executable, "-m", "tests.faults.torture", "600", "--store", store]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        lines = iter(running.stderr.readline, "")
        assert any("executed" in line for line in lines)
        assert len(_session(running.pid)) > 3  # servers and nodes
        at = time.monotonic()
        os.killpg(running.pid, number)
        shown, errors = running.communicate(timeout=60)
    assert time.monotonic() - at < 30
    assert running.returncode == 130, errors
    assert "interrupted" in shown
    assert "not judged" in errors
    until(lambda: not _session(running.pid), "all its processes to be gone")


def _session(leader: int) -> list[str]:
    """The processes that were started within this session and still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, session = rest.split()[:4]
        if int(session) == leader and state != "Z":
            found.append(name)
    return found


def test_a_column_for_each_store() -> None:
    kept = Report("sqlite", 1, 60.0, {"kill": 12}, 13, {"fired": 1_200, "missed": 3})
    broken = Report("postgres", 1, 61.0, {"kill": 1, "cut": 2}, 4, broken=["t1: twice"])
    lines = table([kept, broken]).splitlines()
    assert lines[0].split() == ["sqlite", "postgres"]
    assert "leader killed (SIGKILL)      12         1" in lines
    assert "leader's line cut off         –         2" in lines
    assert lines[-1].split() == ["promises", "kept", "BROKEN"]
