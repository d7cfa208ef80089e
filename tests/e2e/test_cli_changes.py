"""`tenure schedules add, update, pause, resume, remove`, on real files and a real server."""

from __future__ import annotations

import getpass
import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import APP, Answer, at_hand, node, tenure, until
from tests.support.servers import PostgresServer

_numbers = count()


class Shell:
    """Commands on one store, in one folder."""

    def __init__(self, folder: Path, url: str, namespace: str = "default") -> None:
        self.folder = folder
        self.url = url
        self.namespace = namespace
        assert at_hand(folder, "migrate", "--url", url).code == 0

    def __call__(self, *args: object, stdin: str = "") -> Answer:
        where = ("--url", self.url, "--namespace", self.namespace)
        return at_hand(self.folder, *args, *where, stdin=stdin)

    def add(self, *args: object, **kwargs: Any) -> Answer:
        return self("schedules", "add", *args, **kwargs)

    def show(self, name: str) -> Any:
        return self("schedules", "show", name, "--json").json

    @property
    def names(self) -> list[str]:
        return [schedule["name"] for schedule in self("schedules", "list", "--json").json]


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    if request.param == "sqlite":
        return Shell(tmp_path, "sqlite:///shop.db")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return Shell(tmp_path, postgres.url, f"cli {next(_numbers)}")


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "trigger": "every 5m", "task": "pack", **more}


def test_life_of_a_schedule(shell: Shell) -> None:
    added = shell.add(
        *("acme", "--cron", "0 7 * * MON", "--tz", "Europe/Berlin", "--task", "invoice"),
        *("--kwargs", '{"customer": 7}', "--tenant", "acme", "--catch-up", "all"),
        *("--overlap", "queue", "--retries", 2, "--lock", "customer:{customer}", "--json"),
    )
    assert (added.code, added.json["task_declared"]) == (0, False)
    assert "No node is running" in added.err
    stored = shell.show("acme")
    assert stored["rule"] == "cron 0 7 * * MON (Europe/Berlin)"
    assert (stored["kwargs"], stored["tenant"], stored["lock"]) == (
        {"customer": 7},
        "acme",
        "customer:7",
    )
    assert (stored["catch_up"], stored["overlap"], stored["retries"]) == ("all", "queue", 2)

    again = shell.add("acme", "--every", "5m", "--task", "invoice")
    assert (again.code, "'acme' exists already" in again.err) == (1, True)
    assert "tenure schedules update acme" in again.err

    changed = shell(
        *("schedules", "update", "acme", "--every", "2 months", "--kwargs", '{"customer": 8}'),
        *("--no-tenant", "--timeout", 30, "--expected-version", 1, "--json"),
    ).json
    assert changed["rule"].startswith("every 2 months")
    assert (changed["lock"], changed["tenant"], changed["timeout"]) == ("customer:8", None, 30)
    assert (changed["version"], changed["retries"]) == (2, 2)
    cleared = shell("schedules", "update", "acme", "--no-timeout", "--no-lock", "--json").json
    assert (cleared["timeout"], cleared["lock"]) == (None, f"schedule:{cleared['uid']}")

    renamed = shell("schedules", "rename", "acme", "acme-monthly", "--json").json
    assert (renamed["name"], renamed["uid"]) == ("acme-monthly", cleared["uid"])
    missing = shell("schedules", "rename", "acme", "other")
    assert (missing.code, "no schedule named 'acme'" in missing.err) == (1, True)
    wrong = shell("schedules", "rename", "acme-monthly", "")
    assert (wrong.code, "1 to 200 printable characters" in wrong.err) == (2, True)
    assert "acme is named" not in shell("schedules", "rename", "acme-monthly", "acme").err

    paused = shell("schedules", "pause", "acme", "--reason", "stocktaking", "--json").json
    assert (paused["active"], paused["reason"]) == (False, "paused: stocktaking")
    paused = shell("schedules", "pause", "acme", "--reason", "audit", "--json").json
    assert (paused["active"], paused["reason"]) == (False, "paused: audit")
    again = shell("schedules", "pause", "acme")
    assert (again.code, "already inactive (paused: audit)" in again.err) == (1, True)
    paused = shell("schedules", "pause", "acme", "--reason", "stocktaking", "--json").json
    assert shell("schedules", "pause", "acme").code == 1
    assert "is active; next" in shell("schedules", "resume", "acme", "--catch-up").out
    assert "already; nothing was changed" in shell("schedules", "resume", "acme").out

    unsure = shell("schedules", "remove", "acme", stdin="n\n")
    assert (unsure.code, "not confirmed" in unsure.err) == (1, True)
    assert shell("schedules", "remove", "acme", "--yes", "--json").json["removed"] == "acme"
    assert shell.names == []


def test_expected_version_that_is_not_there_any_more(shell: Shell) -> None:
    shell.add("a", "--every", "5m", "--task", "pack")
    shell("schedules", "update", "a", "--retries", 1)
    for command in (
        ("update", "a", "--retries", 2),
        ("pause", "a"),
        ("resume", "a"),
        ("remove", "a", "--yes"),
    ):
        refused = shell("schedules", *command, "--expected-version", 1)
        assert refused.code == 1
        assert "'a' has version 2 now, not 1: it was changed at" in refused.err
    assert (shell.show("a")["version"], shell.show("a")["retries"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("a", "--task", "pack"), "give a NAME, a trigger"),
        (("a", "--every", "5m"), "give a NAME, a trigger"),
        (("--every", "5m", "--task", "pack"), "give a NAME, a trigger"),
        (("a", "--every", "5m", "--cron", "* * * * *", "--task", "t"), "give one of them"),
        (("a", "--every", "5x", "--task", "pack"), "not an interval"),
        (("a", "--every", "5m", "--task", "pack", "--kwargs", "{"), "is not JSON"),
        (("a", "--every", "5m", "--task", "pack", "--kwargs", "[]"), "is not a JSON object"),
        (("a", "--every", "5m", "--task", "pack", "--retries", "-1"), "must be between 0 and"),
        (("a", "--every", "5m", "--task", "pack", "--timeout", "inf"), "timeout=inf must be"),
        (("a", "--every", "5m", "--task", "pack", "--priority", "9" * 23), "must be between"),
        (("a", "--every", "5m", "--task", "pack", "--lock", "{x}"), "cannot be filled in"),
        (("a", "--every", "5m", "--task", "pack", "--skip-existing"), "belongs to --file"),
        (("a" * 201, "--every", "5m", "--task", "pack"), "1 to 200 printable characters"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], why: str, tmp_path: Path) -> None:
    refused = at_hand(tmp_path, "schedules", "add", *arguments)
    assert (refused.code, why in refused.err) == (2, True), refused
    assert not (tmp_path / "tenure.db").exists()


def test_update_of_nothing_or_nobody(shell: Shell) -> None:
    assert "nothing to change" in shell("schedules", "update", "a").err
    assert shell("schedules", "update", "a", "--retries", 1).code == 1
    both = shell("schedules", "update", "a", "--lock", "x", "--no-lock")
    assert (both.code, "--lock and --no-lock: give one" in both.err) == (2, True)


def test_run_now_says_that_an_earlier_run_waits(shell: Shell) -> None:
    shell.add("a", "--every", "5m", "--task", "pack")
    assert shell("schedules", "run-now", "a").code == 0
    skipped = shell("schedules", "run-now", "a")
    assert skipped.code == 1
    found = re.search(r"run (\d+) of 'a' has the same lock and waits to be executed", skipped.err)
    assert found, skipped.err
    assert f"tenure runs show {found[1]}" in skipped.err
    assert shell("runs", "show", found[1]).code == 0
    assert "leases list" not in skipped.err


# -- many from a file -----------------------------------------------------------------------------


def test_file_is_stored_as_a_whole(shell: Shell) -> None:
    many = [entry(f"s{n:05}", kwargs={"n": n}, tenant=f"t{n % 2}") for n in range(2_600)]
    (shell.folder / "many.jsonl").write_text(lines(*many) + "\n\n")
    tried = shell.add("--file", "many.jsonl", "--dry-run")
    assert "2,600 schedules could be added; nothing was stored" in tried.out
    assert shell.names == []
    added = shell.add("--file", "many.jsonl")
    assert "2,600 schedules added." in added.out
    assert "Adding: 2,600 of 2,600 schedules" in added.err
    assert shell.show("s02599")["kwargs"] == {"n": 2599}
    of_one = shell("schedules", "list", "--tenant", "t1", "--limit", 9999, "--json").json
    assert len(of_one) == 1_300

    again = shell.add("--file", "many.jsonl")
    assert again.code == 1
    assert "2,600 schedules of this file exist already: 's00000' (line 1)" in again.err
    rest = lines(entry("more"), *many[:3])
    skipped = shell.add("--file", "-", "--skip-existing", "--json", stdin=rest)
    assert skipped.json == {"added": 1, "existing": 3, "dry_run": False}


def test_wrong_line_leaves_nothing_stored(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "sqlite:///shop.db")
    wrong = [
        (json.dumps(entry("a")), None),
        ("{", "line 2: it is not JSON"),
        ("[1]", "line 3: it is not a JSON object"),
        (json.dumps({"name": "b", "task": "pack"}), "line 4: it has no 'trigger'"),
        (json.dumps(entry("c", trigger="every 5x")), "line 5: '5x' is not an interval"),
        (json.dumps(entry("d", trigger=5)), "line 6: its trigger 5 is neither"),
        (json.dumps(entry("e", colour="red")), "line 7: schedule 'e': unknown option 'colour'"),
        (json.dumps(entry("f", kwargs=[1])), "line 8: its 'kwargs' is [1], which is not an"),
        (json.dumps(entry("a")), "line 9: line 1 has the same name 'a'"),
        (json.dumps(entry("g", catch_up="some")), "line 10: catch_up='some' is not known"),
        (json.dumps(entry("h", trigger={"type": "every", "v": 1})), "line 11: the stored trigger"),
        (json.dumps(entry(7)), "line 12: its 'name' is 7, which is not a text"),  # type: ignore[arg-type]
        (json.dumps(entry("i", retries="3")), "line 13: retries='3' is not a whole number"),
        (json.dumps(entry("j", timeout="5")), "line 14: timeout='5' is not a number of seconds"),
        (json.dumps(entry("k", lock=5)), "line 15: lock=5 is not a lock key"),
        (json.dumps(entry("l", priority=10**23)), "line 16: priority=1000000000000000000"),
        (json.dumps(entry("m", priority="high")), "line 17: priority='high' is not a whole"),
        (json.dumps(entry("n", timeout=float("inf"))), "line 18: timeout=inf must be greater"),
        (json.dumps(entry("o", self=1)), "line 19: it cannot be read"),
        ("[" * 100_000, "line 20: it is not JSON"),
    ]
    (tmp_path / "f").write_text("\n".join(line for line, _ in wrong))
    refused = shell.add("--file", "f")
    assert refused.code == 1
    for _, why in wrong[1:]:
        assert why is not None
        assert why in refused.err
    assert "19 lines of f cannot be added. Nothing was stored." in refused.err
    assert shell.names == []
    (tmp_path / "g").write_bytes(b'{"name": "\xff"}\n')
    assert "not UTF-8" in shell.add("--file", "g").err
    both = shell.add("--file", "f", "--task", "pack")
    assert (both.code, "--file has everything in it" in both.err) == (2, True)


# -- with the code at hand, and with nodes that have it -------------------------------------------


def test_app_has_the_tasks_and_the_store(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    app = ("--app", "app:scheduler")
    assert tenure(tmp_path, "migrate", "--url", "sqlite:///jobs.db").code == 0
    unknown = tenure(tmp_path, "schedules", "add", "x", "--every", "5m", "--task", "swep", *app)
    assert (unknown.code, "unknown task 'swep'. Declared here:" in unknown.err) == (2, True)
    wrong = ("x", "--every", "5m", "--task", "held", "--kwargs", '{"usr": 1}')
    refused = tenure(tmp_path, "schedules", "add", *wrong, *app)
    assert (refused.code, "cannot be called with ['usr']" in refused.err) == (2, True)
    added = tenure(tmp_path, "schedules", "add", "x", "--every", "5m", "--task", "sweep", *app)
    assert (added.code, "x is added: every 5 minutes" in added.out) == (0, True)
    found = tenure(tmp_path, "schedules", "show", "x", "--json", "--url", "sqlite:///jobs.db")
    assert found.json["task"] == "sweep"


def test_task_that_no_live_node_declares(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    shell = Shell(tmp_path, "sqlite:///jobs.db")
    with node(tmp_path):
        until(lambda: "tenure/node/" in shell("leases", "list").out, "the node's presence")
        known = shell.add("known", "--every", "1h", "--task", "sweep", "--json")
        assert (known.json["task_declared"], known.err) == (True, "")
        typo = shell.add("typo", "--every", "1h", "--task", "swep", "--json")
        assert not typo.json["task_declared"]
        assert "The node that runs does not execute task 'swep': runs will wait" in typo.err
        changed = shell("schedules", "update", "typo", "--task", "sweep")
        assert (changed.code, changed.err) == (0, "")
        # What was added is effective: the leader was woken, and did not have to be restarted.
        shell.add("often", "--every", "1s", "--task", "sweep")
        until(lambda: shell.show("often")["occurrences"], "its first occurrence")


def test_updates_are_on_record_from_what_to_what(shell: Shell) -> None:
    shell.add("digest", "--every", "1h", "--task", "pack", "--kwargs", '{"secret": 1}')
    shell("schedules", "update", "digest", "--retries", 3, "--kwargs", '{"secret": 2}')
    shell("schedules", "update", "digest", "--every", "2h", "--expected-version", 99)
    shell("schedules", "update", "digest", "--every", "2h", "--expected-version", 2)
    shell("schedules", "update", "digest", "--retries", 3)
    found = shell("audit", "--json").json[::-1]
    assert [line["detail"] for line in found[1:]] == [
        "retries: 0 → 3; other arguments",
        'trigger="every 2 hours" expected_version',
        "trigger: every hour → every 2 hours",
        "nothing differs",
    ]
    assert found[2]["outcome"].startswith("refused: ")
    assert "secret" not in json.dumps(found)


def test_changes_are_on_record_and_say_who(shell: Shell) -> None:
    shell.add("digest", "--every", "1h", "--task", "pack", "--kwargs", '{"secret": 1}')
    shell("schedules", "pause", "digest", "--reason", "stocktaking")
    shell("schedules", "resume", "digest", "--expected-version", 99)
    shell("schedules", "backfill", "digest", "--from", "2026-01-01", "--to", "2026-01-01T01:00")
    shell("schedules", "run-now", "digest", "--key", "k")
    shell("schedules", "list")
    shell.add("other", "--every", "1h", "--task", "pack")
    (run,) = (each["id"] for each in shell("runs", "list", "--json").json[:1])
    shell("runs", "cancel", run)

    found = shell("audit", "--json").json[::-1]
    told = [(line["action"], line["subject"], line["detail"]) for line in found]
    assert told[:3] == [
        ("create schedule", "digest", ""),
        ("pause schedule", "digest", "stocktaking"),
        ("resume schedule", "digest", "expected_version"),
    ]
    assert [line[0] for line in told[3:]] == [
        *("backfill", "run now", "create schedule", "cancel run")
    ]
    assert told[-1][1] == str(run)
    assert {(line["actor"], line["via"]) for line in found} == {(getpass.getuser(), "cli")}
    assert [line["outcome"] for line in found if line["outcome"] != "done"] == [found[2]["outcome"]]
    assert found[2]["outcome"].startswith("refused: ")
    about = shell("audit", "--of", "digest", "--json").json
    assert {line["subject"] for line in about} == {"digest"}
    assert len(about) == 5
    assert "secret" not in json.dumps(found)
