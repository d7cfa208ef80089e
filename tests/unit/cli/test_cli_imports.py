"""`tenure import crontab` and `kubernetes`: lines for `schedules add --file`, and reasons."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tenure import Tasks
from tenure.cli import main

CRONTAB = """\
# my jobs
MAILTO=ops@example.org
30 2 * * 1-5 /usr/local/bin/backup.sh --all
@daily  echo done \\% >> /tmp/log
@reboot /usr/bin/start
0 25 * * * nothing
* * * * * mail -s % someone
CRON_TZ=America/New_York
0 9 * * 1 report
"""


def imported(*words: str) -> Result:
    return CliRunner().invoke(main, ["import", *words])


@pytest.fixture
def crontab(tmp_path: Path) -> str:
    path = tmp_path / "crontab"
    path.write_text(CRONTAB)
    return str(path)


def test_the_lines_of_a_crontab_become_paused_schedules(crontab: str) -> None:
    result = imported("crontab", crontab, "--tz", "Europe/Berlin")
    backup, daily, report = map(json.loads, result.stdout.splitlines())
    assert backup == {
        "name": "backup.sh-3",
        "trigger": {"type": "cron", "v": 1, "expression": "30 2 * * 1-5", "tz": "Europe/Berlin"},
        "task": "shell",
        "kwargs": {"command": "/usr/local/bin/backup.sh --all"},
        "catch_up": "none",
        "overlap": "allow",
        "paused": "imported, not reviewed yet",
    }
    assert daily["kwargs"] == {"command": "echo done % >> /tmp/log"}
    assert report["trigger"]["tz"] == "America/New_York"
    assert "note: line 3: MAILTO was 'ops@example.org'" in result.stderr


def test_what_is_left_out_is_named_with_the_reason(crontab: str) -> None:
    result = imported("crontab", crontab, "--tz", "Europe/Berlin", "--dry-run")
    assert result.exit_code == 1
    assert not result.stdout
    assert "left out: line 5: cron('@reboot') is not known" in result.stderr
    assert "left out: line 6: cron: the hour is wrong: '25'" in result.stderr
    assert "left out: line 7: its % gives the command an input" in result.stderr
    assert "3 schedules carried over, 3 left out; nothing was written" in result.stderr


def test_without_a_zone_a_crontab_is_not_guessed(crontab: str) -> None:
    result = imported("crontab", crontab)
    assert "left out: line 3: its time zone is not known: give --tz" in result.stderr
    assert json.loads(result.stdout)["name"] == "report-9"


def test_a_system_crontab_names_users(tmp_path: Path) -> None:
    path = tmp_path / "crontab"
    path.write_text("0 7 * * * root /usr/bin/rotate\n")
    result = imported("crontab", str(path), "--tz", "UTC", "--system")
    assert json.loads(result.stdout)["kwargs"] == {"command": "/usr/bin/rotate"}
    assert "it ran as the user 'root'" in result.stderr


def test_the_files_are_written_loaded_and_run(crontab: str, tmp_path: Path) -> None:
    lines, stub = tmp_path / "schedules.jsonl", tmp_path / "shell_tasks.py"
    written = ("--write", str(lines), "--stub", str(stub))
    result = imported("crontab", crontab, "--tz", "Europe/Berlin", *written)
    assert f"tenure schedules add --file {lines}" in result.stderr
    again = imported("crontab", crontab, "--tz", "Europe/Berlin", *written)
    assert "exists already" in again.stderr
    other = tmp_path / "other.py"
    imported("crontab", crontab, "--tz", "UTC", "--write", str(lines), "--stub", str(other))
    assert not other.exists()  # both files or none

    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    run = CliRunner().invoke
    assert run(main, ["migrate", "--url", url]).exit_code == 0
    added = run(main, ["schedules", "add", "--file", str(lines), "--url", url, "--json"])
    assert json.loads(added.stdout)["added"] == 3
    listed = run(main, ["schedules", "show", "echo-4", "--url", url, "--json"])
    shown = json.loads(listed.stdout)
    assert (shown["state"], shown["reason"]) == ("paused", "paused: imported, not reviewed yet")

    tasks = runpy.run_path(str(stub))["tasks"]
    assert isinstance(tasks, Tasks)
    tasks["shell"].function(command="true")
    with pytest.raises(subprocess.CalledProcessError):
        tasks["shell"].function(command="false")


# -- Kubernetes -----------------------------------------------------------------------------------


def cronjob(name: str, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "shop:1", "command": ["report"]}]}
    job = {"backoffLimit": 2, "template": {"spec": pod}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"schedule": "0 7 * * 1-5", "jobTemplate": {"spec": job}} | spec,
    }


def manifests(tmp_path: Path, *documents: dict[str, Any]) -> str:
    path = tmp_path / "cronjobs.json"
    path.write_text(json.dumps({"kind": "List", "items": documents}))
    return str(path)


def test_a_cronjob_keeps_its_zone_deadline_and_policy(tmp_path: Path) -> None:
    job = cronjob(
        "report",
        timeZone="Europe/Berlin",
        startingDeadlineSeconds=200,
        concurrencyPolicy="Forbid",
        suspend=True,
    )
    result = imported("kubernetes", manifests(tmp_path, job, {"kind": "Pod"}))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "name": "shop/report",
        "trigger": {"type": "cron", "v": 1, "expression": "0 7 * * 1-5", "tz": "Europe/Berlin"},
        "task": "container",
        "kwargs": {"image": "shop:1", "command": ["report"], "args": []},
        "overlap": "skip",
        "retries": 2,
        "paused": "it was suspended",
        "catch_up": "none",
        "catch_up_grace": 200,
    }


@pytest.mark.parametrize(
    ("spec", "trigger"),
    [
        ({"schedule": "CRON_TZ=Asia/Kolkata 0 9 ? * *"}, "0 9 * * *"),
        ({"schedule": "@hourly"}, "@hourly"),
        ({"schedule": "@every 1h30m"}, None),
    ],
)
def test_forms_of_a_schedule(tmp_path: Path, spec: dict[str, str], trigger: str | None) -> None:
    result = imported("kubernetes", manifests(tmp_path, cronjob("report", **spec)))
    assert result.exit_code == 0, result.output
    line = json.loads(result.stdout)
    assert line["trigger"].get("expression") == trigger
    assert line["paused"] == "imported, not reviewed yet"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"concurrencyPolicy": "Replace"}, "concurrencyPolicy Replace ends the run before"),
        ({"schedule": "0 7 * *"}, "has 4 fields"),
        ({"jobTemplate": {}}, "KeyError('spec') in its manifest"),
    ],
)
def test_a_cronjob_that_cannot_be_carried_over(
    tmp_path: Path, spec: dict[str, Any], reason: str
) -> None:
    result = imported("kubernetes", manifests(tmp_path, cronjob("report", **spec)), "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["found"]
    assert found["schedule"] is None
    assert reason in found["reason"]


def test_yaml_and_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "cronjobs.yaml"
    path.write_text(yaml.safe_dump_all([cronjob("a"), cronjob("b"), cronjob("a")]))
    result = imported("kubernetes", str(path))
    names = [json.loads(line)["name"] for line in result.stdout.splitlines()]
    assert names == ["shop/a", "shop/b"]
    assert "left out: shop/a: shop/a has the same name" in result.stderr


def test_what_is_wrong_with_a_file_is_told_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cronjobs.json"
    path.write_text("{")
    result = imported("kubernetes", str(path))
    assert "is neither JSON nor YAML: while parsing a flow node expected" in result.stderr


def test_a_file_without_cronjobs(tmp_path: Path) -> None:
    result = imported("kubernetes", manifests(tmp_path, {"kind": "Pod"}))
    assert result.exit_code == 1
    assert "has no CronJob" in result.stderr
