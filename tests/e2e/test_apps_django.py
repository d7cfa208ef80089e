"""The Django project of examples/django: under its servers, its tests, and `manage.py tenure`."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import psycopg
import pytest

from tests.e2e.apps import Books, Server, books, serving, until
from tests.support.servers import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="freezes processes: Linux"),
]
PROJECT = Path(__file__).resolve().parents[2] / "examples" / "django"
GUNICORN = ("gunicorn", "--preload", "-w", "3", "-b", "127.0.0.1:{port}", "shop.wsgi")


def manage(*arguments: str, cwd: Path = PROJECT, fails: bool = False) -> str:
    """What a command of the project says, on both streams."""
    command = [sys.executable, "-W", "error", "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert bool(done.returncode) is fails, done.stdout
    return done.stdout


@pytest.fixture
def on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the store: it is the project's own database, which does not exist yet."""
    monkeypatch.setenv("SHOP_SQLITE", f"{tmp_path}/shop.sqlite3")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return f"sqlite:///{tmp_path}/shop.sqlite3"


@pytest.fixture(scope="module")
def migrated(postgres: PostgresServer) -> str:
    """The name of a database after `migrate`, to be copied: that takes a second, and memory."""
    url = postgres.create_database("migrated")
    with pytest.MonkeyPatch.context() as patch:
        _use(url, patch)
        manage("migrate", "-v", "0")
    return urlsplit(url).path.lstrip("/")


@pytest.fixture
def on_postgres(postgres: PostgresServer, migrated: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the store, after `migrate`."""
    url = postgres.create_database("shop", f"TEMPLATE {migrated}")
    _use(url, monkeypatch)
    return url


def _use(url: str, patch: pytest.MonkeyPatch) -> None:
    parts = urlsplit(url)
    patch.setenv("SHOP_POSTGRES", parts.path.lstrip("/"))
    for variable, value in (("USER", parts.username), ("HOST", parts.hostname)):
        patch.setenv(f"PG{variable}", value or "")
    patch.setenv("PGPORT", str(parts.port))
    patch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@contextmanager
def started(
    folder: Path, url: str, *command: str, cwd: Path = PROJECT
) -> Iterator[tuple[Server, Books]]:
    with books(url) as store, serving(folder, url, *command, cwd=cwd) as server:
        yield server, store


def order(server: Server, customer: str) -> None:
    form = urlencode({"customer": customer}).encode()
    with urlopen(f"http://127.0.0.1:{server.port}/orders/", form, timeout=30) as answer:
        assert answer.status == 200


def test_runserver_is_one_node_and_reloads(tmp_path: Path, on_sqlite: str) -> None:
    copy = tmp_path / "project"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__", "*.sqlite3*"))
    manage("migrate", "-v", "0")
    runserver = ("python", "manage.py", "runserver", "{port}")
    with started(tmp_path, on_sqlite, *runserver, cwd=copy) as (server, store):
        before = server.until_swept().pid
        assert before != server.pid  # that one only watches the files
        assert server.get()[1]["leads"] is True
        assert nodes(on_sqlite) == 1
        order(server, "acme")
        until(lambda: server.get()[1]["confirmed"] == 1, "the confirmation")
        tasks = copy / "orders" / "tasks.py"
        tasks.write_text(tasks.read_text() + "\n# changed\n")
        after = server.until_swept(not_by=before).pid
        assert nodes(on_sqlite) == 1
        os.kill(after, signal.SIGTERM)
        assert server.ended() == 0
        store.check(server.sweeps)


def nodes(url: str) -> int:
    """How many live in the project's SQLite file."""
    select = "SELECT count(*) FROM tenure_active_lock WHERE name LIKE 'tenure/node/%'"
    with closing(sqlite3.connect(urlsplit(url).path[1:])) as database:
        return int(database.execute(select).fetchone()[0])


def test_gunicorn_with_preload_on_postgres(tmp_path: Path, on_postgres: str) -> None:
    with started(tmp_path, on_postgres, *GUNICORN) as (server, store):
        server.until_swept()
        leader = store.until_led()
        assert leader != server.pid
        order(server, "acme")
        order(server, "nobody")  # is rolled back, and its run with it
        until(lambda: server.get()[1]["confirmed"] == 1, "the confirmation")
        store.kill(leader)
        store.until_led(but=leader)
        server.until_swept(not_by=leader)
        assert len(store.scheduler.runs(task="confirm")) == 1
        assert server.stop() == 0
        store.check(server.sweeps)


def test_its_tests_on_sqlite_in_memory(on_sqlite: str) -> None:
    said = manage("test")
    assert "OK (skipped=1)" in said
    assert not Path(urlsplit(on_sqlite).path[1:]).exists()  # nothing was opened but the test's own


def test_its_tests_on_postgres_and_the_test_database_is_dropped(on_postgres: str) -> None:
    assert "OK\n" in manage("test")
    with psycopg.connect(on_postgres) as database:
        names = database.execute("SELECT datname FROM pg_database").fetchall()
    assert (f"test_{urlsplit(on_postgres).path[1:]}",) not in names


def test_connections_stay_as_many_over_1000_runs(tmp_path: Path, on_postgres: str) -> None:
    """Under `manage.py tenure run`: one for each of its four threads, and Tenure's own three."""
    run = ("python", "manage.py", "tenure", "run", "--reload")
    with (
        serving(tmp_path, on_postgres, *run, cwd=PROJECT) as server,
        psycopg.connect(on_postgres, autocommit=True) as database,
    ):

        def ask(select: str) -> int:
            row = database.execute(select.encode()).fetchone()
            assert row is not None
            return int(row[0])

        def are_executed() -> bool:
            assert ask(f"{CONNECTIONS} NOT LIKE 'tenure%'") <= CONCURRENCY
            assert ask(f"{CONNECTIONS} LIKE 'tenure%'") <= OWN
            return not ask(f"{CONFIRMED} IN ('waiting', 'claimed')")

        ask(f"SELECT max(tenure.enqueue('confirm', '{{\"order\": 1}}')) {series(1000)}")
        until(are_executed, "1,000 runs")
        assert ask(f"{CONFIRMED} = 'succeeded'") == 1000
        assert server.stop() == 0


CONCURRENCY = 4
"""As its settings say."""
OWN = 3
"""Connections of a process that leads and is busy, as docs/capacity.md counts them."""
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend' AND application_name"  # no autovacuum
)
CONFIRMED = "SELECT count(*) FROM tenure.run_history WHERE task = 'confirm' AND state"


def series(count: int) -> str:
    return f"FROM generate_series(1, {count})"
