"""`tenure demo`: as text, on a terminal, interrupted; and a verdict that can be bad."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import pytest
from rich.text import Text

from tenure.cli.demo.node import Execution
from tenure.cli.demo.story import acts
from tenure.cli.demo.verdict import Takeover, Verdict
from tenure.cli.demo.view import summary
from tenure.model import Kind, Occurrence, OccurrenceState, RunRecord
from tests.e2e.command import until

DEMO = [sys.executable, "-c", "from tenure.cli import main; main()", "demo"]
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


# -- the real thing -------------------------------------------------------------------------------


def _environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "TERM": "xterm-256color", **more}


def _demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *options],
        env=_environment(folder, TENURE_ENABLED="0"),  # the demo's nodes are not the user's
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.as_user
@pytest.mark.slow
def test_without_a_terminal_it_prints_lines_and_a_summary_and_ends(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--seconds", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL: killed the leader" in done.stdout
    assert "SIGTERM: asked the leader" in done.stdout
    assert re.search(r"killed +node \d → node \d +\d+\.\d\d s", done.stdout)
    assert "✓ nothing fired twice" in done.stdout
    assert ", 0 duplicates" in done.stdout
    assert " 0 unaccounted" in done.stdout
    assert done.stdout.rstrip().endswith("Every promise was kept.")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_json_is_all_there_is_on_stdout_and_keep_keeps(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--seconds", "5", "--nodes", "2", "--json", "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["ok"] is True
    assert figures["duplicates"] == figures["unaccounted"] == figures["early"] == 0
    assert 0 < figures["fired"] <= figures["planned"]  # a busy machine may miss one, and says so
    assert [t["how"] for t in figures["takeovers"]] == ["killed"]
    assert 0 < figures["takeovers"][0]["seconds"] <= figures["bound"]
    assert figures["takeovers"][0]["pid"] != figures["takeovers"][0]["successor_pid"]
    assert "killed the leader" in done.stderr
    (kept,) = tmp_path.iterdir()
    assert str(kept) in done.stderr
    assert {"demo.db", "journal.jsonl", "node-1.log"} <= {path.name for path in kept.iterdir()}
    assert len((kept / "journal.jsonl").read_text().splitlines()) >= figures["fired"]


@contextmanager
def _started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A demo that harms nobody and has a leader, also on its dashboard, and what it prints from
    then on."""
    with subprocess.Popen(
        [*DEMO, "--no-kill", "--seconds", "8", "--dashboard", "127.0.0.1:0"],
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        while "leads" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        address = re.search(r"the same on (http://\S+)", said)
        assert address, said
        with urlopen(address.group(1), timeout=60) as page:
            assert b" leads," in page.read()
        yield process, process.stdout
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_its_nodes_and_clears_away(tmp_path: Path, number: int) -> None:
    with _started(tmp_path) as (process, stdout):
        pids = _children(process.pid)
        assert len(pids) == 3
        process.send_signal(number)
        assert "all nodes of the demo have ended" in stdout.read()
    assert process.returncode == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_node_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    with _started(tmp_path) as (process, stdout):
        os.kill(_children(process.pid)[1], signal.SIGKILL)
        assert "node 2 ended by itself" in stdout.read()
    assert process.returncode == 1


@pytest.mark.slow
def test_a_broken_promise_is_told_and_exit_code_1(tmp_path: Path) -> None:
    with _started(tmp_path) as (process, stdout):
        (journal,) = tmp_path.glob("*/journal.jsonl")
        until(lambda: journal.read_text().endswith("\n"), "an execution")
        with journal.open("a") as file:  # as if a task had been executed twice
            file.write(journal.read_text().splitlines(keepends=True)[0])
        said = stdout.read()
    assert process.returncode == 1
    assert "✗ nothing fired twice" in said
    assert ", 1 duplicates" in said
    assert said.rstrip().endswith("A promise was broken.")


def _children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_on_a_terminal_there_is_a_live_view(tmp_path: Path) -> None:
    code, screen = _on_terminal(tmp_path, [*DEMO, "--seconds", "5"])
    assert code == 0, screen
    assert "\x1b[?1049h" in screen  # the alternate screen, and back
    assert "\x1b[?1049l" in screen
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)
    live, _, after = text.partition("Every promise")
    for words in ("kill -9 the leader in", "leads", "stands by", "killed (SIGKILL)", "took over"):
        assert words in live
    assert "was kept." in after


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_no_color_is_respected(tmp_path: Path) -> None:
    code, screen = _on_terminal(tmp_path, [*DEMO, "--seconds", "4", "--no-kill"], NO_COLOR="1")
    assert code == 0, screen
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_that_has_only_ascii_gets_lines(tmp_path: Path) -> None:
    options = ["--seconds", "4", "--no-kill"]
    code, screen = _on_terminal(tmp_path, [*DEMO, *options], PYTHONIOENCODING="ascii")
    assert code == 0, screen
    assert screen.isascii()
    assert "ok     nothing fired twice" in re.sub(r"\x1b\[[0-9;]*m", "", screen)


def _on_terminal(folder: Path, command: Sequence[str], **more: str) -> tuple[int, str]:
    """Run on a pseudo-terminal of 80 × 24; its exit code, and everything it wrote."""
    import pty

    environment = _environment(folder, COLUMNS="80", LINES="24", **more)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), environment)
    written, until = b"", time.monotonic() + 100
    while time.monotonic() < until:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        written += part
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), written.decode(errors="replace")


# -- the verdict ----------------------------------------------------------------------------------


def test_acts_leave_somebody_to_take_over() -> None:
    assert [fate.name for fate in acts(18, 3)] == ["KILLED", "FROZEN", "STOPPED"]
    assert [fate.name for fate in acts(10, 3)] == ["KILLED", "STOPPED"]
    assert [fate.name for fate in acts(5, 3)] == [fate.name for fate in acts(18, 2)] == ["KILLED"]


def _nominal(number: int) -> datetime:
    return START + number * timedelta(seconds=5)


def _occurrence(number: int) -> Occurrence:
    at = _nominal(number)
    recorded = at + timedelta(milliseconds=2)
    fired = OccurrenceState.FIRED
    return Occurrence("backup", 1, Kind.PLANNED, at, at, fired, None, recorded, 1, number)


def _run(number: int) -> RunRecord:
    """What the verdict reads of it. The leader was killed before the fourth."""
    rest: dict[str, Any] = dict.fromkeys(field.name for field in fields(RunRecord))
    term = 1 if number < 3 else 2
    known = {"schedule": "backup", "nominal": _nominal(number), "crashes": 0, "term": term}
    return RunRecord(**{**rest, **known, "id": number})


def _execution(number: int) -> Execution:
    nominal = _nominal(number)
    return Execution(number, "backup", nominal, 1, 100, nominal + timedelta(milliseconds=5))


KILLED_AT = _nominal(3) - timedelta(milliseconds=10)
TAKEOVER = Takeover(
    *("killed", "node 1", 99, 1, KILLED_AT),
    *("node 2", 100, 2, KILLED_AT + timedelta(milliseconds=150)),
)
KEPT = Verdict(
    created={"backup": START - timedelta(seconds=1)},
    ready=START - timedelta(seconds=1),
    until=_nominal(4) + timedelta(seconds=1),
    occurrences=[_occurrence(n) for n in range(5)],
    runs=[_run(n) for n in range(5)],
    executions=[_execution(n) for n in range(5)],
    takeovers=[TAKEOVER],
)


def _summary(verdict: Verdict) -> str:
    return "\n".join(Text.from_markup(line).plain for line in summary(verdict))


def _broken(**evidence: Sequence[object]) -> list[str]:
    """The promises that this evidence breaks, as the summary and the JSON tell them."""
    verdict = replace(KEPT, **evidence)  # type: ignore[arg-type]
    told = json.loads(json.dumps(verdict.to_json()))
    broken = [promise["text"] for promise in told["promises"] if not promise["kept"]]
    assert told["ok"] is verdict.kept is (not broken)
    assert re.findall(r"✗ ([a-z ]+?)  ", _summary(verdict)) == broken
    assert ("A promise was broken." in _summary(verdict)) is bool(broken)
    return broken


def test_all_kept() -> None:
    assert _broken() == []
    told = KEPT.to_json()
    assert (told["planned"], told["fired"], told["reruns"]) == (5, 5, 0)
    assert [told["lateness"][of]["count"] for of in ("calm", "leaderless")] == [4, 1]
    assert _summary(KEPT).count("✓") == 5


def test_what_is_fired_after_the_end_of_the_plan_is_not_counted() -> None:
    """The nodes go on until they are stopped; on a busy machine that is a few occurrences."""
    verdict = replace(KEPT, occurrences=[*KEPT.occurrences, _occurrence(5), _occurrence(6)])
    assert verdict.kept
    assert (verdict.counts["planned"], verdict.counts["fired"]) == (5, 5)


SECOND = _execution(2)


@pytest.mark.parametrize("again", [SECOND, replace(SECOND, run=77), replace(SECOND, attempt=2)])
def test_an_occurrence_executed_twice_is_a_duplicate(again: Execution) -> None:
    executions = [*KEPT.executions, again]
    assert _broken(executions=executions) == ["nothing fired twice"]
    assert replace(KEPT, executions=executions).to_json()["duplicates"] == 1


def test_two_runs_of_one_occurrence_are_a_duplicate() -> None:
    runs = [*KEPT.runs, replace(_run(4), id=77)]
    assert _broken(runs=runs) == ["nothing fired twice"]


def test_a_second_attempt_is_excused_if_the_first_lost_its_node() -> None:
    first, second = replace(SECOND, pid=TAKEOVER.pid), replace(SECOND, attempt=2)
    others = [e for e in KEPT.executions if e.run != 2]
    assert _broken(executions=[*others, first, second]) == []
    assert replace(KEPT, executions=[*others, first, second]).counts["reruns"] == 1
    twice = [*others, first, second, second]
    assert _broken(executions=twice) == ["nothing fired twice"]


def test_an_occurrence_without_record_is_unaccounted() -> None:
    rest = [o for o in KEPT.occurrences if o.run_id != 2]
    assert _broken(occurrences=rest) == ["nothing dropped"]
    verdict = replace(KEPT, occurrences=rest)
    assert verdict.notes == ["backup at 12:00:10.0: not accounted for"]
    assert verdict.notes[0] in _summary(verdict)


def test_an_occurrence_fired_and_never_executed_is_unaccounted() -> None:
    assert _broken(executions=KEPT.executions[:-1]) == ["nothing dropped"]


def test_a_demo_that_fired_nothing_has_shown_nothing() -> None:
    nothing = replace(KEPT, until=START - timedelta(seconds=1), occurrences=[], executions=[])
    assert not nothing.kept


def test_a_missed_stretch_is_shown_with_its_reason_and_breaks_nothing() -> None:
    missed = replace(
        _occurrence(1),
        last=_nominal(2),
        state=OccurrenceState.MISSED,
        reason="catch_up=latest",
        run_id=None,
    )
    verdict = replace(
        KEPT,
        occurrences=[missed, *(o for o in KEPT.occurrences if o.run_id not in (1, 2))],
        runs=[run for run in KEPT.runs if run.id not in (1, 2)],
        executions=[e for e in KEPT.executions if e.run not in (1, 2)],
    )
    assert verdict.kept
    assert verdict.notes == [
        "backup at 12:00:05.0: missed (catch_up=latest)",
        "backup at 12:00:10.0: missed (catch_up=latest)",
    ]


def test_early_is_a_broken_promise() -> None:
    early = replace(SECOND, at=_nominal(2) - timedelta(milliseconds=1))
    executions = [early if e.run == 2 else e for e in KEPT.executions]
    assert _broken(executions=executions) == ["nothing early"]


def test_what_is_not_in_the_plan_is_a_broken_promise() -> None:
    at = _nominal(2) + timedelta(seconds=1)
    unplanned = replace(_occurrence(9), nominal=at, last=at, recorded_at=at)
    assert _broken(occurrences=[*KEPT.occurrences, unplanned]) == ["nothing early"]


def test_a_firing_under_an_old_term_is_a_broken_promise() -> None:
    runs = [replace(run, term=1) if run.id == 4 else run for run in KEPT.runs]
    assert _broken(runs=runs) == ["one leader acts at a time"]


@pytest.mark.parametrize("seconds", [None, 3.2])
def test_a_late_or_missing_successor_is_a_broken_promise(seconds: float | None) -> None:
    fired_at = None if seconds is None else KILLED_AT + timedelta(seconds=seconds)
    takeover = replace(TAKEOVER, fired_at=fired_at)
    assert _broken(takeovers=[takeover]) == ["a successor fires in time"]
