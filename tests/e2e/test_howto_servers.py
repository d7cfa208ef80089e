"""docs/howto/fastapi.md, flask.md and gunicorn.md, followed word by word: all that a page shows is
one program, and its commands start it. Only the port is another."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.e2e.apps import Server, serving, until
from tests.e2e.command import at_hand

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="gunicorn forks"),
]
HOWTO = ROOT / "docs" / "howto"
URL = "sqlite:///shop.db"
NODES = 4


def program(page: str) -> str:
    return "\n".join(block.text for block in blocks(HOWTO / page) if block.language == "python")


def commands(page: str) -> list[list[str]]:
    shown = [block.text for block in blocks(HOWTO / page) if not block.language]
    return [shlex.split(line) for text in shown for line in text.splitlines()]


def until_all_are_nodes(folder: Path, server: Server) -> None:
    def status() -> bool:
        assert server.process.poll() is None, server.output
        answer = at_hand(folder, "status", "--url", URL, "--json")
        return answer.code == 0 and answer.json["leader"] and len(answer.json["nodes"]) == NODES

    until(status, f"{NODES} nodes, one of which leads")


def post(server: Server, path: str) -> dict[str, object]:
    with urlopen(f"http://127.0.0.1:{server.port}{path}", b"", timeout=30) as answer:
        told: dict[str, object] = json.load(answer)
    return told


def test_fastapi(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(program("fastapi.md"))
    (command,) = commands("fastapi.md")
    with serving(tmp_path, URL, *command, "--port", "{port}", cwd=tmp_path) as server:
        until_all_are_nodes(tmp_path, server)
        assert server.get("/ready")[0] == 200
        assert post(server, "/invoices/acme")["status"] == "added"
        assert post(server, "/invoices/acme")["status"] == "there already"
        run = str(post(server, "/refresh")["run"])

        def succeeded() -> bool:
            shown = at_hand(tmp_path, "runs", "show", run, "--url", URL, "--json")
            return bool(shown.json["state"] == "succeeded")

        until(succeeded, "what the handler enqueued")
        assert "leader.took_office" in server.output  # as the section on logging says
        assert server.stop() == 0


@pytest.mark.parametrize("number", [0, 1], ids=["plain", "preload"])
def test_flask_under_gunicorn(tmp_path: Path, number: int) -> None:
    (tmp_path / "app.py").write_text(program("flask.md"))
    (tmp_path / "gunicorn.conf.py").write_text(program("gunicorn.md"))
    command = commands("gunicorn.md")[number]
    assert ("--preload" in command) is bool(number)
    with serving(tmp_path, URL, *command, "-b", "127.0.0.1:{port}", cwd=tmp_path) as server:
        until_all_are_nodes(tmp_path, server)
        until(lambda: server.get()[1]["leads"], "an answer of the worker that leads")
        assert server.stop() == 0
