"""A Flask application: gunicorn with and without preload, and the development server."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.apps import APPS, books, serving
from tests.support.servers import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="freezes processes: Linux"),
]
GUNICORN = ("gunicorn", "-c", "gunicorn_conf.py", "-b", "127.0.0.1:{port}", "-w", "4")


def gunicorn(folder: Path, url: str, *options: str) -> None:
    """Four workers; the leader is killed; all are stopped."""
    with (
        books(url) as store,
        serving(folder, url, *GUNICORN, *options, "flask_app:app") as server,
    ):
        server.until_swept()
        assert server.get()[1]["running"] is True
        leader = store.until_led()
        assert leader != server.pid
        store.kill(leader)
        assert store.until_led(but=leader) != server.pid
        server.until_swept(not_by=leader)
        assert server.stop() == 0
        assert server.pid not in {sweep.pid for sweep in server.sweeps}
        store.check(server.sweeps)


def test_gunicorn(tmp_path: Path) -> None:
    gunicorn(tmp_path, f"sqlite:///{tmp_path}/app.db")


def test_gunicorn_with_preload(tmp_path: Path) -> None:
    gunicorn(tmp_path, f"sqlite:///{tmp_path}/app.db", "--preload")


def test_gunicorn_with_preload_on_postgres(tmp_path: Path, postgres: PostgresServer) -> None:
    gunicorn(tmp_path, postgres.create_database("gunicorn_preload"), "--preload")


def test_development_server_reloads_and_a_second_one_takes_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    app = Path(shutil.copy(APPS / "flask_app.py", tmp_path))
    flask = ("python", "flask_app.py", "{port}")
    with books(url) as store, serving(tmp_path, url, *flask, cwd=tmp_path) as first:
        before = first.until_swept().pid
        assert before != first.pid
        app.write_text(app.read_text() + "\n# changed\n")
        after = first.until_swept(not_by=before).pid
        assert after != first.pid
        with serving(tmp_path, url, *flask) as second:
            other = second.get()[1]["pid"]
            store.kill(after)
            assert store.until_led(but=after) == other
            second.until_swept(by=other)
            os.kill(other, signal.SIGTERM)
            assert second.ended() == 0
            store.check(first.sweeps + second.sweeps)
