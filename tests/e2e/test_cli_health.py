"""`tenure run --health`, as an orchestrator sees it."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.command import APP, at_hand, node, until
from tests.faults.observing import fetch, fetch_json
from tests.support.servers import free_port, release_port


def test_a_node_answers_until_it_has_stopped(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    port = free_port()
    with node(tmp_path, "app:scheduler", "--health", f"127.0.0.1:{port}") as started:
        assert fetch(port, "/healthz")[0] == 200
        until(lambda: fetch(port, "/readyz")[0] == 200, "readiness")
        leader = fetch_json(port, "/leader")
        assert leader["ok"]
        assert str(started.pid) in leader["node"]
        # `held` lets it wait: it says that it stops, and still lives.
        given = at_hand(tmp_path, "schedules", "run-now", "held", "--url", "sqlite:///jobs.db")
        assert given.code == 0, given
        until(lambda: "tenure_running_runs 1.0" in fetch(port, "/metrics")[1], "the run")
        started.process.send_signal(signal.SIGTERM)
        until(lambda: fetch_json(port, "/readyz").get("reasons") == ["stopping"], "its stop")
        assert fetch(port, "/healthz")[0] == 200
        (tmp_path / "let-go").touch()
        assert started.process.wait(timeout=60) == 0
    release_port(port)


def test_address_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    answer = at_hand(tmp_path, "run", "app:scheduler", "--health", "9400")
    assert answer.code != 0
    assert "is not HOST:PORT, such as 127.0.0.1:9400" in answer.err
