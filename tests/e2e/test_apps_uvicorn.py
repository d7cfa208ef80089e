"""A FastAPI application under uvicorn: alone, twice, with many workers, with the reloader."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.apps import APPS, books, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="freezes processes: Linux"),
]
UVICORN = ("uvicorn", "fastapi_app:app", "--port", "{port}")


def test_second_process_is_ready_while_it_stands_by_and_takes_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with books(url) as store, serving(tmp_path, url, *UVICORN) as first:
        first.until_swept(1)
        with serving(tmp_path, url, *UVICORN) as second:
            assert first.get("/ready")[0] == 200
            status, told = second.get("/ready")
            assert (status, told["ready"], told["leads"]) == (200, True, False)
            status, told = second.get("/tenure/api/status")
            assert (status, told["leader"]["pid"]) == (200, first.pid)

            first.stop()
            assert store.until_led() == second.pid
            second.until_swept(by=second.pid)
            second.stop()
            store.check(first.sweeps + second.sweeps)
            assert f"process {first.pid} is closed, running: False" in first.output


def test_many_workers_are_one_cluster_and_survive_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with books(url) as store, serving(tmp_path, url, *UVICORN, "--workers", "3") as server:
        server.until_swept()
        leader = store.until_led()
        assert leader != server.pid
        store.kill(leader)
        assert store.until_led(but=leader) != server.pid
        server.until_swept(not_by=leader)
        assert server.stop() == 0
        store.check(server.sweeps)


def test_reloader_runs_nothing_itself_and_a_reload_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    code = tmp_path / "code"
    code.mkdir()
    app = Path(shutil.copy(APPS / "fastapi_app.py", code))
    with (
        books(url) as store,
        serving(tmp_path, url, *UVICORN, "--reload", cwd=code) as server,
    ):
        before = server.until_swept().pid
        app.write_text(app.read_text() + "\n# changed\n")
        after = server.until_swept(not_by=before).pid
        assert store.until_led() == after
        server.stop(signal.SIGTERM)
        assert server.pid not in {sweep.pid for sweep in server.sweeps}
        assert f"process {before} is closed, running: False" in server.output
        store.check(server.sweeps)
