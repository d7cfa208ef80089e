"""`tenure demo`: as text, on a terminal, interrupted; and a verdict that can be bad."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure.cli.demo.journal import Execution, JournalReader, JournalWriter
from tenure.cli.demo.story import Deed, acts
from tenure.cli.demo.summary import summary
from tenure.cli.demo.verdict import Evidence, Takeover, Verdict, judge
from tenure.model import (
    Kind,
    Occurrence,
    OccurrenceState,
    OnCrash,
    RunRecord,
    RunState,
)
from tenure.tasks import Run
from tenure.triggers import every

DEMO = [sys.executable, "-c", "from tenure.cli.demo import demo; demo()"]
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEGUN = START - timedelta(seconds=1)


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
@pytest.mark.timeout(120)
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
@pytest.mark.timeout(120)
def test_json_is_all_there_is_on_stdout_and_keep_keeps(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--seconds", "5", "--nodes", "2", "--json", "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["ok"] is True
    assert figures["duplicates"] == figures["unaccounted"] == figures["early"] == 0
    assert figures["fired"] == figures["planned"] > 0
    assert [t["how"] for t in figures["takeovers"]] == ["killed"]
    assert 0 < figures["takeovers"][0]["seconds"] <= figures["bound"]
    assert figures["takeovers"][0]["pid"] != figures["takeovers"][0]["successor_pid"]
    assert "killed the leader" in done.stderr
    (kept,) = tmp_path.iterdir()
    assert str(kept) in done.stderr
    assert {"demo.db", "journal.jsonl", "node-1.log"} <= {path.name for path in kept.iterdir()}
    assert len(JournalReader(kept / "journal.jsonl").read()) >= figures["fired"]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_interrupted_it_ends_its_nodes_and_clears_away(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO, "--no-kill"],
        env=_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "leads" in line:
                break
        pids = _children(process.pid)
        assert len(pids) == 3
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
    assert process.returncode == 130
    assert "all nodes of the demo have ended" in said
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert list(tmp_path.iterdir()) == []


def _children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.timeout(120)
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
@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_no_color_is_respected(tmp_path: Path) -> None:
    code, screen = _on_terminal(tmp_path, [*DEMO, "--seconds", "4", "--no-kill"], NO_COLOR="1")
    assert code == 0, screen
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen)


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


# -- the acts -------------------------------------------------------------------------------------


def _deeds(seconds: float, nodes: int, *, kill: bool = True) -> list[str]:
    return [act.deed.value for act in acts(seconds, nodes, kill=kill)]


def test_acts_leave_somebody_to_take_over() -> None:
    assert _deeds(18, 3) == [Deed.KILL, Deed.FREEZE, Deed.STOP]
    assert _deeds(10, 3) == [Deed.KILL, Deed.STOP]
    assert _deeds(5, 3) == [Deed.KILL]
    assert _deeds(18, 2) == [Deed.KILL]
    assert _deeds(18, 3, kill=False) == []


# -- the verdict ----------------------------------------------------------------------------------


def _nominal(number: int) -> datetime:
    return START + number * timedelta(seconds=4)


def _occurrence(number: int, term: int = 1) -> Occurrence:
    nominal = _nominal(number)
    return Occurrence(
        schedule="sweep",
        uid=1,
        kind=Kind.PLANNED,
        nominal=nominal,
        last=nominal,
        state=OccurrenceState.FIRED,
        reason=None,
        recorded_at=nominal + timedelta(milliseconds=2),
        term=term,
        run_id=number,
    )


def _run(number: int, term: int = 1) -> RunRecord:
    nominal = _nominal(number)
    return RunRecord(
        id=number,
        schedule="sweep",
        uid=1,
        kind=Kind.PLANNED,
        nominal=nominal,
        task="sweep",
        kwargs="{}",
        state=RunState.SUCCEEDED,
        due=nominal,
        attempt=1,
        crashes=0,
        failures=0,
        lock=None,
        priority=0,
        timeout=None,
        retries=0,
        on_crash=OnCrash.RERUN,
        term=term,
        node="host:100:aa",
        created_at=nominal + timedelta(milliseconds=2),
        claimed_at=nominal + timedelta(milliseconds=4),
        finished_at=nominal + timedelta(milliseconds=60),
        error=None,
    )


def _execution(number: int) -> Execution:
    nominal = _nominal(number)
    return Execution(number, "sweep", nominal, 1, 100, nominal + timedelta(milliseconds=5))


def _evidence() -> Evidence:
    """Five occurrences; the leader killed before the fourth, whose successor was quick."""
    killed_at = _nominal(3) - timedelta(milliseconds=10)
    return Evidence(
        triggers={"sweep": every(seconds=4, start=START)},
        created={"sweep": BEGUN},
        ready=BEGUN,
        until=_nominal(4) + timedelta(seconds=1),
        occurrences=[_occurrence(n, term=1 if n < 3 else 2) for n in range(5)],
        runs=[_run(n, term=1 if n < 3 else 2) for n in range(5)],
        executions=[_execution(n) for n in range(5)],
        takeovers=[
            Takeover(
                *("killed", "node 1", 99, 1, killed_at),
                *("node 2", 100, 2, killed_at + timedelta(milliseconds=150)),
            )
        ],
        ttl=2.0,
    )


def _broken(verdict: Verdict) -> list[str]:
    return [promise.text for promise in verdict.promises if not promise.kept]


def test_all_kept() -> None:
    verdict = judge(_evidence())
    assert verdict.kept
    assert (verdict.planned, verdict.fired, verdict.reruns) == (5, 5, 0)
    assert verdict.calm.count == 4
    assert verdict.leaderless.count == 1
    assert "\n".join(line.plain for line in summary(verdict)).count("✓") == 5
    assert json.loads(json.dumps(verdict.to_json()))["ok"] is True


def test_what_is_fired_after_the_end_of_the_plan_is_not_counted() -> None:
    """The nodes go on until they are stopped; on a busy machine that is a few occurrences."""
    evidence = _evidence()
    later = [*evidence.occurrences, _occurrence(5, term=2), _occurrence(6, term=2)]
    verdict = judge(replace(evidence, occurrences=later))
    assert verdict.kept
    assert (verdict.planned, verdict.fired) == (5, 5)


def test_an_occurrence_executed_as_two_runs_is_a_duplicate() -> None:
    evidence = _evidence()
    again = replace(_execution(2), run=77)
    verdict = judge(replace(evidence, executions=[*evidence.executions, again]))
    assert _broken(verdict) == ["nothing fired twice"]
    assert verdict.to_json()["duplicates"] == 1
    assert "✗ nothing fired twice" in "\n".join(line.plain for line in summary(verdict))
    plain = "\n".join(line.plain for line in summary(verdict, symbols=False))
    assert plain.isascii()
    assert "A promise was broken." in plain


def test_an_attempt_begun_twice_is_a_duplicate() -> None:
    evidence = _evidence()
    verdict = judge(replace(evidence, executions=[*evidence.executions, _execution(2)]))
    assert _broken(verdict) == ["nothing fired twice"]


def test_a_second_attempt_is_excused_only_if_the_first_lost_its_node() -> None:
    evidence = _evidence()
    again = replace(_execution(2), attempt=2)
    verdict = judge(replace(evidence, executions=[*evidence.executions, again]))
    assert _broken(verdict) == ["nothing fired twice"]
    executions = [replace(e, pid=99) if e.run == 2 else e for e in evidence.executions]
    verdict = judge(replace(evidence, executions=[*executions, again]))
    assert verdict.kept
    assert verdict.reruns == 1


def test_an_occurrence_without_record_is_unaccounted() -> None:
    evidence = _evidence()
    rest = [o for o in evidence.occurrences if o.run_id != 2]
    verdict = judge(replace(evidence, occurrences=rest))
    assert _broken(verdict) == ["nothing dropped"]
    assert verdict.unaccounted == ("sweep at 12:00:08.0: not accounted for",)


def test_an_occurrence_fired_and_never_executed_is_unaccounted() -> None:
    evidence = _evidence()
    verdict = judge(replace(evidence, executions=evidence.executions[:-1]))
    assert _broken(verdict) == ["nothing dropped"]


def test_a_missed_one_is_shown_with_its_reason_and_breaks_nothing() -> None:
    evidence = _evidence()
    missed = replace(
        _occurrence(2), state=OccurrenceState.MISSED, reason="catch_up=latest", run_id=None
    )
    verdict = judge(
        replace(
            evidence,
            occurrences=[missed if o.run_id == 2 else o for o in evidence.occurrences],
            runs=[r for r in evidence.runs if r.id != 2],
            executions=[e for e in evidence.executions if e.run != 2],
        )
    )
    assert verdict.kept
    assert verdict.missed == ("sweep at 12:00:08.0: missed (catch_up=latest)",)


def test_early_or_unplanned_is_a_broken_promise() -> None:
    evidence = _evidence()
    early = replace(_execution(2), at=_nominal(2) - timedelta(milliseconds=1))
    executions = [early if e.run == 2 else e for e in evidence.executions]
    assert _broken(judge(replace(evidence, executions=executions))) == ["nothing early"]


def test_a_firing_under_an_old_term_is_a_broken_promise() -> None:
    evidence = _evidence()
    runs = [replace(r, term=1) if r.id == 4 else r for r in evidence.runs]
    assert _broken(judge(replace(evidence, runs=runs))) == ["one leader acts at a time"]


@pytest.mark.parametrize("seconds", [None, 3.2])
def test_a_late_or_missing_successor_is_a_broken_promise(seconds: float | None) -> None:
    evidence = _evidence()
    (takeover,) = evidence.takeovers
    fired_at = None if seconds is None else takeover.at + timedelta(seconds=seconds)
    verdict = judge(replace(evidence, takeovers=[replace(takeover, fired_at=fired_at)]))
    assert _broken(verdict) == ["a successor fires in time"]


def test_journal_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    reader = JournalReader(path)
    assert reader.read() == []
    run = Run(7, "sweep", "sweep", START, 1, 3, "host:1:aa", {})
    writer = JournalWriter(path)
    writer.add(run)
    assert [execution.run for execution in reader.read()] == [7]
    with path.open("a") as file:
        file.write('{"run": 8')  # half a line is not a line
    assert len(reader.read()) == 1
