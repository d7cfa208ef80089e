"""The commands that look at a cluster and change it, while a node is at work."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import APP, Answer, Node, at_hand, node, tenure, until

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A folder with an app, a database, and a node that leads."""

    folder: Path
    node: Node

    def ask(self, *args: object, stdin: str = "") -> Answer:
        return at_hand(self.folder, *args, stdin=stdin, TENURE_URL="sqlite:///jobs.db")

    def execute(self, *args: object, stdin: str = "") -> Answer:
        return tenure(self.folder, *args, stdin=stdin, TENURE_URL="sqlite:///jobs.db")

    def json(self, *args: object) -> Any:
        answer = self.ask(*args, "--json")
        assert answer.code == 0, answer
        return answer.json


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "app.py").write_text(APP)
    with node(folder) as running:
        yield Cluster(folder, running)


def test_status_tells_leader_nodes_and_what_is_due(cluster: Cluster) -> None:
    answer = cluster.execute("status", "--json")
    assert answer.code == 0, answer
    seen = answer.json
    leader, (only,) = seen["leader"], seen["nodes"]
    assert (leader["pid"], leader["term"], leader["in_office"]) == (cluster.node.pid, 1, True)
    assert (only["pid"], only["host"], only["leader"]) == (leader["pid"], leader["host"], True)
    assert (only["app"], only["tasks"]) == ("default", 3)
    assert all(ISO.fullmatch(t) for t in (leader["since"], seen["next_due"], only["since"]))
    assert isinstance(seen["backlog"], int)
    assert isinstance(seen["due"], int)
    assert seen["store"] == f"sqlite:///{cluster.folder}/jobs.db"
    assert seen["clock_skew"] == 0


def test_status_for_people_is_plain_when_piped(cluster: Cluster) -> None:
    answer = cluster.execute("status")
    assert answer.code == 0
    assert f"pid {cluster.node.pid} on " in answer.out
    assert "\x1b" not in answer.out
    assert "ago)" in answer.out


def test_status_of_an_unused_namespace_says_that_nobody_leads(cluster: Cluster) -> None:
    answer = cluster.ask("status", "--namespace", "elsewhere")
    assert answer.code == 1
    assert "NOBODY LEADS" in answer.out


def test_schedules_are_listed_and_shown_with_past_and_next_times(cluster: Cluster) -> None:
    listed = {s["name"]: s for s in cluster.json("schedules", "list")}
    assert set(listed) == {"sweep", "broken", "held"}
    assert listed["broken"]["kwargs"] == {"customer": "acme"}
    assert (listed["held"]["lock"], listed["held"]["rule"]) == ("report:7", "every hour")

    def swept() -> Any:
        shown = cluster.json("schedules", "show", "sweep", "--next", "3")
        return shown if len(shown["occurrences"]) >= 2 else None

    shown = until(swept, "two occurrences")
    assert len(shown["next_times"]) == 3
    assert shown["next_times"] == sorted(shown["next_times"])
    states = {o["state"] for o in shown["occurrences"]}
    assert {"fired"} <= states <= {"fired", "skipped", "missed"}  # the latter if it is busy
    assert "OUTCOME" in cluster.ask("schedules", "show", "sweep").out


def test_unknown_names_are_errors(cluster: Cluster) -> None:
    for args in (
        ("schedules", "show", "nothing"),
        ("schedules", "run-now", "nothing"),
        ("runs", "list", "--schedule", "nothing"),
        ("runs", "show", "999999"),
        ("leases", "show", "nothing"),
        ("leases", "evict", "nothing", "--yes"),
    ):
        answer = cluster.ask(*args)
        assert answer.code == 1, (args, answer)
        assert answer.err.startswith("Error: ")
        assert "nothing" in answer.err or "999999" in answer.err
    assert cluster.ask("runs", "list", "--state", "odd").code == 2


def test_run_now_waits_for_the_end_and_tells_a_failure(cluster: Cluster) -> None:
    done = cluster.json("schedules", "run-now", "sweep", "--key", "once", "--wait", "20")
    assert (done["state"], done["kind"], done["new"]) == ("succeeded", "manual", True)
    again = cluster.json("schedules", "run-now", "sweep", "--key", "once")
    assert (again["id"], again["new"]) == (done["id"], False)

    answer = cluster.execute("schedules", "run-now", "broken", "--wait", "20")
    assert answer.code == 1
    assert "ValueError: no such customer: acme" in answer.err
    (failed,) = cluster.json("runs", "list", "--schedule", "broken", "--state", "failed")
    assert (failed["node"] or "").split(":")[1] == str(cluster.node.pid)
    shown = cluster.ask("runs", "show", failed["id"])
    assert shown.code == 0
    assert "Traceback" in shown.out


def test_lock_of_a_running_run_is_listed_beside_the_leases(cluster: Cluster) -> None:
    run = cluster.json("schedules", "run-now", "held")

    def lock() -> Any:
        listed = cluster.json("leases", "list")
        return next((entry for entry in listed if entry["name"] == "report:7"), None)

    entry = until(lock, "the run to be claimed")
    assert (entry["kind"], entry["run"], entry["schedule"]) == ("lock", run["id"], "held")
    skipped = cluster.ask("schedules", "run-now", "held")
    assert skipped.code == 1
    assert "overlap=skip" in skipped.err
    assert f"run {run['id']} of 'held' has the same lock and is being executed" in skipped.err
    assert "shows who holds the lock" in skipped.err
    refused = cluster.ask("leases", "evict", "report:7", "--yes")
    assert refused.code == 1
    assert f"lock key of run {run['id']}" in refused.err
    (cluster.folder / "let-go").touch()


def test_pause_records_its_reason_and_resume_what_was_missed(cluster: Cluster) -> None:
    assert cluster.ask("schedules", "pause", "sweep", "--reason", "moving house").code == 0
    again = cluster.ask("schedules", "pause", "sweep")
    assert again.code == 1
    assert "moving house" in again.err
    shown = cluster.json("schedules", "show", "sweep")
    assert (shown["state"], shown["reason"]) == ("paused", "paused: moving house")
    assert shown["next_times"] == []
    resumed = cluster.ask("schedules", "resume", "sweep")
    assert resumed.code == 0
    assert "sweep is active; next " in resumed.out


def test_evicting_asks_first_and_ends_the_term(cluster: Cluster) -> None:
    before = cluster.json("leases", "show", "tenure/leader")
    declined = cluster.ask("leases", "evict", "tenure/leader", stdin="n\n")
    assert declined.code == 1
    assert "nothing was changed" in declined.err
    assert cluster.json("leases", "show", "tenure/leader")["term"] == before["term"]

    evicted = cluster.execute("leases", "evict", "tenure/leader", "--reason", "a test", stdin="y\n")
    assert evicted.code == 0, evicted

    def led_again() -> Any:
        seen = cluster.ask("status", "--json").json["leader"]
        return seen if seen and seen["term"] > before["term"] else None

    until(led_again, "a new term")
    history = cluster.json("leases", "history", "tenure/leader")
    assert history[0]["end"] is None
    assert "evicted by" in history[1]["end"]
    assert "a test" in history[1]["end"]


def test_removing_warns_that_the_code_declares_it(cluster: Cluster) -> None:
    declined = cluster.ask("schedules", "remove", "broken")
    assert declined.code == 1
    assert "declared in the code" in declined.err
    assert cluster.ask("schedules", "remove", "broken", "--yes").code == 0
    assert cluster.ask("schedules", "show", "broken").code == 1


def test_a_killed_node_is_no_longer_shown_as_leading(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    url = ("--url", "sqlite:///jobs.db")
    with node(tmp_path) as running:
        until(lambda: at_hand(tmp_path, "status", "--json", *url).json["nodes"], "its presence")
        running.stop(signal.SIGKILL)
        seen = at_hand(tmp_path, "status", "--json", *url)
        assert (seen.code, seen.json["leader"], seen.json["nodes"]) == (1, None, [])
        assert "NOBODY LEADS" in at_hand(tmp_path, "status", *url).out
        names = {e["name"] for e in at_hand(tmp_path, "leases", "list", "--json", *url).json}
        assert names == {"tenure/leader"}
        everything = at_hand(tmp_path, "leases", "list", "--all", "--json", *url).json
        assert {e["state"] for e in everything} == {"expired"}
        assert len(everything) == 2
