"""An APScheduler under the guard, in several processes: one runs the jobs, another takes over."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.apps import APPS, Sweep, books, kill_when, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="freezes processes: Linux"),
]
SECOND = timedelta(seconds=1)


def seconds(sweeps: list[Sweep]) -> list[datetime]:
    """The times that were run; each of them once."""
    counted = Counter(sweep.nominal for sweep in sweeps)
    assert set(counted.values()) == {1}, sweeps
    return sorted(datetime.strptime(nominal, "%H:%M:%S").replace(tzinfo=UTC) for nominal in counted)


def test_jobs_in_memory_run_in_one_process_at_a_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    jobs = ("python", str(APPS / "apscheduler_jobs.py"))
    with books(url) as store, serving(tmp_path, url, *jobs, cwd=tmp_path) as first:
        first.until_swept(by=first.pid)
        with serving(tmp_path, url, *jobs, cwd=tmp_path) as second:
            first.until_swept(by=first.pid)
            assert second.sweeps == []
            first.process.kill()
            first.process.wait()
            assert store.until_led("apscheduler", but=first.pid) == second.pid
            second.until_swept(by=second.pid)
            with serving(tmp_path, url, *jobs, cwd=tmp_path) as third:
                assert second.stop() == 0
                assert store.until_led("apscheduler", but=second.pid) == third.pid
                third.until_swept(1)
                assert third.stop() == 0
                assert store.leader("apscheduler") is None
                seconds(first.sweeps + second.sweeps + third.sweeps)


def test_jobs_in_a_shared_store_lose_nothing_either(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    jobs = ("python", str(APPS / "apscheduler_jobs.py"), "shared")
    with books(url) as store, serving(tmp_path, url, *jobs, cwd=tmp_path) as first:
        first.until_swept(by=first.pid)
        with serving(tmp_path, url, *jobs, cwd=tmp_path) as second:

            def noted() -> bool:
                """APScheduler has noted what it ran; if not, it would be run again."""
                with closing(sqlite3.connect(tmp_path / "jobs.db", timeout=0)) as connection:
                    query = "SELECT next_run_time FROM apscheduler_jobs"
                    try:
                        ((following,),) = connection.execute(query)
                    except sqlite3.OperationalError:
                        return False  # it is frozen in the middle of noting it
                last = datetime.fromtimestamp(following, UTC).astimezone() - SECOND
                return f"{last:%H:%M:%S}" == first.sweeps[-1].nominal

            kill_when(first.pid, noted)
            first.process.wait()
            assert store.until_led("apscheduler", but=first.pid) == second.pid
            second.until_swept(by=second.pid)
            assert second.stop() == 0
            run = seconds(first.sweeps + second.sweeps)
            gaps = {later - earlier for earlier, later in pairwise(run)}
            assert gaps == {SECOND}, run


def test_asyncio_scheduler_in_workers_of_fastapi(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    uvicorn = ("uvicorn", "apscheduler_fastapi:app", "--port", "{port}", "--workers", "2")
    with books(url) as store, serving(tmp_path, url, *uvicorn) as server:
        leader = server.until_swept().pid
        assert store.until_led("apscheduler") == leader
        kill_when(leader, lambda: True)
        assert store.until_led("apscheduler", but=leader) != server.pid
        server.until_swept(not_by=leader)
        assert server.stop() == 0
        seconds(server.sweeps)
        assert store.leader("apscheduler") is None
