"""What people do every day with the command line: look, wait, stop, edit, complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import Scheduler
from tests.e2e.command import APP, EXECUTABLE, PATIENCE, at_hand, node, tenure, until
from tests.unit.cli.test_log_format import parsed

SLOW = """
import sys, time
from tenure import Scheduler, every

scheduler = Scheduler("sqlite:///jobs.db", ttl=5)

@scheduler.task(every(seconds=0.2))
def slow():
    print("begun", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    scheduler.run()
"""


def work() -> None: ...


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    scheduler.task(work)
    yield scheduler
    scheduler.stop()


def test_list_shows_the_last_outcomes(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.replace("every(hours=1)", "every(seconds=1)"))
    url = ("--url", "sqlite:///jobs.db")

    def listed() -> dict[str, list[str]]:
        found = at_hand(tmp_path, "schedules", "list", "--json", *url).json
        return {schedule["name"]: schedule["recent"] for schedule in found}

    with node(tmp_path):
        until(lambda: len(listed()["sweep"]) > 2 and "failed" in listed()["broken"], "outcomes")
        until(lambda: "skipped" in listed()["held"], "one that was skipped")
    shown = at_hand(tmp_path, "schedules", "list", *url).out.splitlines()
    assert shown[0].split()[:6] == ["NAME", "STATE", "TRIGGER", "NEXT", "LAST", "LAST"]
    strips = {line.split()[0]: line.split()[-1] for line in shown[1:4]}
    assert set(strips["sweep"]) <= set(".wr")
    assert "F" in strips["broken"]
    assert "s" in strips["held"]
    assert shown[-1].startswith("Last ten, the newest on the right: . succeeded, F failed")
    assert all(len(states) <= 10 for states in listed().values())


def test_run_that_waits_says_why(tmp_path: Path, jobs: Scheduler) -> None:
    url = ("--url", jobs.url)

    def why(run: int) -> str:
        page = at_hand(tmp_path, "runs", "show", run, *url)
        assert page.code == 0, page
        told: str = at_hand(tmp_path, "runs", "show", run, "--json", *url).json["waits_because"]
        assert told in " ".join(page.out.split())
        return told

    later = jobs.enqueue(work, delay=3600).id
    assert why(later).startswith("it is due in 59m")
    now = jobs.enqueue(work, lock="shop").id
    assert why(now) == "no node is running"
    (tmp_path / "app.py").write_text(APP)
    with node(tmp_path):
        assert why(now) == "no live node executes task work"
        first = at_hand(tmp_path, "schedules", "run-now", "held", "--json", *url).json["id"]
        until(lambda: jobs.get_run(first).state == "claimed", "the run that holds the lock")
        options = ("--kwargs", '{"user": 7}', "--lock", "report:7", "--json", *url)
        behind = at_hand(tmp_path, "enqueue", "held", *options).json["id"]
        assert why(behind).startswith(f"its lock key report:7 is held by run {first} on ")
        (tmp_path / "let-go").touch()
        until(lambda: jobs.get_run(behind).state == "succeeded", "the one behind it")
        told = at_hand(tmp_path, "runs", "show", behind, "--json", *url).json
        assert told["waits_because"] is None


def test_leases_elsewhere_are_not_taken_for_no_nodes(tmp_path: Path) -> None:
    leases = f"sqlite:///{tmp_path}/leases.db"
    # It claims nothing: a run that is claimed at once shows that there is a node.
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db", leases=leases, concurrency=0)
    scheduler.task(work)
    scheduler.start()
    try:
        until(lambda: scheduler.is_leader, "a leader")
        url = ("--url", f"sqlite:///{tmp_path}/jobs.db")
        told = "the scheduler keeps its leases elsewhere. Say where, with --leases"
        added = at_hand(tmp_path, "schedules", "add", "a", "--every", "1h", "--task", "work", *url)
        assert told in added.err
        assert "No node is running" not in added.err
        assert told in at_hand(tmp_path, "schedules", "run-now", "a", *url).err
        doctor = at_hand(tmp_path, "doctor", *url)
        assert "it is not known here who leads" in doctor.out
        assert told in " ".join(doctor.out.split())
        status = at_hand(tmp_path, "status", *url)
        assert status.code == 1
        assert "NOT KNOWN HERE" in status.out
        assert "NOBODY LEADS" not in status.out
        assert "tenure run MODULE:ATTR" not in status.out
        assert told in at_hand(tmp_path, "leases", "list", *url).err
        assert at_hand(tmp_path, "leases", "list", *url, "--leases", leases).err == ""
        assert told in at_hand(tmp_path, "prune", "--dry-run", *url).out
        known = at_hand(tmp_path, "enqueue", "work", *url, "--leases", leases)
        assert known.code == 0
        assert known.err.startswith("Warning: The node that runs does not execute task 'work'")
    finally:
        scheduler.stop()


def test_age_without_a_unit_is_refused(tmp_path: Path, jobs: Scheduler) -> None:
    jobs.schedules()
    for command in (("prune",), ("runs", "list"), ("runs", "cancel")):
        answer = at_hand(tmp_path, *command, "--older-than", "5", "--url", jobs.url)
        assert answer.code == 2, answer
        assert "--older-than='5' has no unit: write 30d, 12h, 90m or 45s" in answer.err


def test_shell_completes_commands_and_options(tmp_path: Path) -> None:
    script = tenure(tmp_path, _TENURE_COMPLETE="bash_source")
    assert (script.code, "_TENURE_COMPLETE=bash_complete" in script.out) == (0, True)

    def completed(line: str) -> set[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        answer = tenure(tmp_path, _TENURE_COMPLETE="bash_complete", **words)
        return {found.partition(",")[2] for found in answer.out.splitlines()}

    assert completed("tenure sch") == {"schedules"}
    assert {"pause", "preview"} == completed("tenure schedules p")
    assert "--log-format" in completed("tenure run --log")


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("by", ["script", "run"])
def test_second_sigterm_ends_it_at_once_without_a_traceback(tmp_path: Path, by: str) -> None:
    (tmp_path / "app.py").write_text(SLOW)
    command = {
        "script": [sys.executable, "app.py"],
        "run": [str(EXECUTABLE), "run", "app:scheduler"],
    }
    process = subprocess.Popen(
        command[by], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        url = f"sqlite:///{tmp_path}/jobs.db"
        ended = ("leases", "history", "tenure/leader", "--json", "--url", url)
        until(lambda: at_hand(tmp_path, *ended).json[0]["ended_at"], "the polite stop to begin")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in said, said


@contextmanager
def reloading(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    log = folder / "reload.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [EXECUTABLE, "run", "app:scheduler", "--reload"],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("TENURE_")},
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield process, log
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_reload_starts_again_when_code_changes(tmp_path: Path) -> None:
    program = APP + '\nprint("first", flush=True)\n'
    (tmp_path / "app.py").write_text(program)
    with reloading(tmp_path) as (_, log):
        until(lambda: "node.started" in log.read_text(), "the first node")
        (tmp_path / "app.py").write_text(program.replace("first", "second") + "\n")
        until(lambda: log.read_text().count("node.started") == 2, "the second node")
        said = log.read_text()
        assert "app.py changed: starting again." in said
        assert said.index("Stopped; handed over.") < said.index("second")
        (tmp_path / "app.py").write_text("oops(")
        until(lambda: "waiting for a change" in log.read_text(), "the import to fail")
        assert "importing 'app' failed" in log.read_text()
        (tmp_path / "app.py").write_text(program)
        until(lambda: log.read_text().count("node.started") == 3, "the third node")
    assert log.read_text().rstrip().endswith("Stopped; handed over.")


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_log_format_is_that_of_every_line(tmp_path: Path, form: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    with node(tmp_path, "app:scheduler", "--log-format", form) as running:
        until(lambda: running.said("run.succeeded"), "a run")
        running.stop()
    lines = running.log.read_text().splitlines()
    read: Callable[[str], dict[str, Any]] = json.loads if form == "json" else parsed
    told = [read(line) for line in lines]
    assert all(line["time"].startswith("20") and line["level"] for line in told)
    assert any(line.get("event") == "run.succeeded" for line in told)
    messages = [line["message"] for line in told if "message" in line]
    assert messages[0].startswith("tenure ")
    assert messages[-1] == "Stopped; handed over."


def test_error_that_ends_it_is_a_line_of_the_log_too(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import nowhere_at_all")
    answer = at_hand(tmp_path, "run", "app:scheduler", "--log-format", "json")
    assert answer.code == 1
    assert "nowhere_at_all" in json.loads(answer.err)["message"]
