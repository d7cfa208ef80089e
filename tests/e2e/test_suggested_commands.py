"""What an error tells you to paste works when it is pasted, in whichever folder you are."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tenure import (
    Conflict,
    InvalidSchedule,
    LeaseHeld,
    Leases,
    NotFound,
    Scheduler,
    SchemaMismatch,
    every,
)
from tenure.backends.address import _TAKE_LEASES, Address
from tenure.facts import Fact
from tests.docs.test_cli import COMMANDS
from tests.e2e.command import EXECUTABLE, PATIENCE, at_hand, until
from tests.support.servers import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    *("plain", "it's", 'a"b', "$(touch pwned) $HOME", "a;b&c|d", "-x", "--yes", "* ~ {a,b}"),
    *("!x", "back\\slash", "ü", "#no", "[red]x[/red]"),
)
PASSWORD = "hunt3rX"


def pasted(command: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Into a real shell, somewhere else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    path = f"{EXECUTABLE.parent}{os.pathsep}{kept['PATH']}"
    return subprocess.run(
        [shutil.which("bash") or "bash", "-c", command],
        cwd=folder,
        env={**kept, "PATH": path, **environ},
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def suggested(text: object) -> list[str]:
    found = re.findall(r"`(tenure [^`]*)`", str(text))
    assert found, text
    return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    yield folder
    assert not list(folder.iterdir()), "something was executed or created there"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_lease_that_is_held_can_be_evicted_as_it_says(
    name: str, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = f"{name.replace('/', '')} 50%?.db"
    url = f"sqlite:///{file.replace('%', '%25').replace('?', '%3F')}"
    with Leases(url, namespace=f"of {name}") as leases:
        assert leases.acquire(name) is not None
        with pytest.raises(LeaseHeld) as caught, leases.hold(name):
            pass
        (command,) = suggested(caught.value)
        done = pasted(f"{command.replace(' evict ', ' evict --yes ')}", elsewhere)
        assert done.returncode == 0, (command, done)
        assert (tmp_path / file).exists()
        assert leases.acquire(name) is not None


def test_schedules_that_are_missing_or_have_changed(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scheduler = Scheduler("sqlite:///jobs.db", namespace="two words")
    with ExitStack() as stack:
        stack.callback(scheduler.stop)
        scheduler.task(name="pack")(lambda: None)
        scheduler.add("it's -x", every(hours=1), task="pack")
        with pytest.raises(NotFound) as missing:
            scheduler.get("none")
        with pytest.raises(Conflict) as changed:
            scheduler.update("it's -x", priority=3, expected_version=99)
    for error in (missing, changed):
        for command in suggested(error.value):
            done = pasted(command, elsewhere)
            assert done.returncode == 0, (command, done)
            assert "it's -x" in done.stdout


def test_name_that_is_taken_is_removed_as_it_says(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = Scheduler("sqlite:///jobs.db", app="first")
    first.task(every(hours=1), name="-a b")(lambda: None)
    first.start()
    first.stop()
    second, facts = Scheduler("sqlite:///jobs.db", app="second"), list[Fact]()
    second.task(every(hours=1), name="-a b")(lambda: None)
    second.on("start.failed", facts.append)
    with pytest.raises(InvalidSchedule) as caught:
        second.start()
    until(lambda: facts, "the fact")
    (command,) = suggested(caught.value)
    assert suggested(facts[0].values()["error"]) == [command]
    done = pasted(command.replace(" remove ", " remove --yes "), elsewhere)
    assert done.returncode == 0, (command, done)


def test_store_without_tables_is_made_as_it_says(tmp_path: Path, elsewhere: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/it's 50%25.db", migrate=False)
    with pytest.raises(SchemaMismatch) as caught:
        scheduler.start()
    (command,) = suggested(caught.value)
    assert pasted(command, elsewhere).returncode == 0, command
    assert (tmp_path / "it's 50%.db").exists()


def test_url_with_a_password_is_taken_from_the_variable(
    postgres: PostgresServer, elsewhere: Path
) -> None:
    url = postgres.url.replace("tenure@", f"tenure:{PASSWORD}@")
    with Leases(url, namespace="pasted") as leases:
        assert leases.acquire("import") is not None
        with pytest.raises(LeaseHeld) as caught, leases.hold("import"):
            pass
        (command,) = suggested(caught.value)
        assert PASSWORD not in command
        unset = pasted(f"{command} --yes", elsewhere)
        assert unset.returncode == 2, "better than another store"
        assert "perhaps a variable is not set" in unset.stderr
        done = pasted(f"{command} --yes", elsewhere, TENURE_URL=url)
        assert done.returncode == 0, done


def test_url_with_a_password_is_taken_from_its_file(
    postgres: PostgresServer, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a url"
    file.write_text(postgres.url.replace("tenure@", f"tenure:{PASSWORD}@"))
    monkeypatch.setenv("TENURE_URL_FILE", str(file))
    with Leases(namespace="in a file") as leases:
        assert leases.acquire("import") is not None
        with pytest.raises(LeaseHeld) as caught, leases.hold("import"):
            pass
    (command,) = suggested(caught.value)
    done = pasted(f"{command} --yes", elsewhere)
    assert done.returncode == 0, done


def test_file_that_the_command_names_is_named_again(
    postgres: PostgresServer, tmp_path: Path, elsewhere: Path
) -> None:
    (tmp_path / "a url").write_text(postgres.url.replace("tenure@", f"tenure:{PASSWORD}@"))
    assert at_hand(tmp_path, "migrate", "--url-file", "a url").code == 0
    other = {"TENURE_URL": "postgresql://app:x@127.0.0.1:1/another"}
    answer = at_hand(tmp_path, "runs", "show", "7000000", "--url-file", "a url", **other)
    (command,) = suggested(answer.err)
    done = pasted(command, elsewhere, **other)
    assert done.returncode == 0, (command, done)


def test_variable_of_another_store_is_not_taken(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Address("postgresql://app:pw@db/app")
    for same in (at.url, "postgresql+psycopg://app:pw@db/app "):
        monkeypatch.setenv("TENURE_URL", str(same))
        assert at.command("doctor") == 'tenure doctor --url "$TENURE_URL"'
    monkeypatch.setenv("TENURE_URL", "postgresql://app:pw@db/another")
    done = pasted(at.command("doctor"), elsewhere, TENURE_URL="postgresql://app:pw@db/another")
    assert done.returncode == 2
    assert "perhaps a variable is not set" in done.stderr


CALLS: tuple[tuple[str, ...], ...] = (
    ("schedules", "show", "none"),
    ("schedules", "run-now", "none"),
    ("schedules", "pause", "it's"),
    ("runs", "show", "7"),
    ("runs", "list", "--schedule", "none"),
    ("leases", "show", "none"),
    ("leases", "evict", "none", "--yes"),
    ("doctor",),
)


@pytest.mark.parametrize("call", CALLS)
def test_what_commands_suggest(call: tuple[str, ...], tmp_path: Path, elsewhere: Path) -> None:
    options = ("--url", "sqlite:///jobs.db", "--namespace", "two words")
    assert at_hand(tmp_path, "migrate", *options).code == 0
    added = ("schedules", "add", "it's", "--every", "1h", "--task", "x")
    assert at_hand(tmp_path, *added, *options).code == 0
    if call == ("doctor",):
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            connection.execute(
                "UPDATE tenure_schedule SET active = 0, reason = 'set aside: it is odd'"
            )
    answer = at_hand(tmp_path, *call, *options, COLUMNS="1000")
    for command in suggested(answer.out + answer.err):
        done = pasted(command, elsewhere)
        assert done.returncode == 0, (command, done)


def test_leases_elsewhere_are_named_where_a_command_takes_them() -> None:
    at = Address("sqlite:////x.db", leases="redis://cache/0")
    for path, command in COMMANDS.items():
        takes = any("--leases" in param.opts for param in command.params)
        words = path.split()[1:]
        assert ("--leases" in at.command(*words)) == takes, path
    assert at.command("status").endswith("--leases redis://cache/0")
    secret = Address("sqlite:////x.db", leases="redis://:pw@cache/0")
    assert secret.command("status").endswith('--leases "$TENURE_LEASES"')
    assert all(prefix.split()[0] in {p.split()[1] for p in COMMANDS} for prefix in _TAKE_LEASES)


def test_control_characters_are_spelled_out(elsewhere: Path) -> None:
    name = "a\x1b[31m\n\u202e'\\b\x9b"
    command = Address("sqlite:////x.db").command("leases", "evict", name=name)
    assert command.isprintable()
    words = command.partition(" evict ")[2].partition(" --url")[0]
    assert pasted(f"printf %s {words}", elsewhere).stdout == name


WRITTEN_OUT = ("tenure leases", "tenure copy")
"""How our connections are called."""
NO_COMMAND = r"(from tenure import)|(`tenure copy( SOURCE TARGET( --abort)?)?`)"
"""Not commands; and the one whose two URLs, which may have passwords, are for people to fill in."""


def test_no_command_is_written_out_without_its_store() -> None:
    """All of them are made by Address.command, which knows how to quote and what to leave out."""
    words = "|".join({path.split()[1] for path in COMMANDS} - {"run", "demo"})
    wrong = list[str]()
    for path in sorted((ROOT / "src" / "tenure").rglob("*.py")):
        tree = ast.parse(path.read_text())
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = re.sub(NO_COMMAND, "", node.value)
                told = re.search(rf"\btenure ({words})\b", text)
                known = node.value in WRITTEN_OUT or id(node) in documentation
                if told and not known:
                    wrong.append(f"{path}:{node.lineno}: {node.value!r}")
    assert not wrong, "\n".join(wrong)
