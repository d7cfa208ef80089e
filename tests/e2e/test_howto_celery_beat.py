"""docs/howto/celery-beat.md, followed word by word; only the broker has another port, and one does
not wait two seconds for each `poll`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, inline_code
from tests.e2e.command import at_hand
from tests.faults.support import Program, Store, until
from tests.support.servers import ValkeyServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Celery's workers fork"),
]
RECORDED = Path(__file__).with_name("entries")
PAGE = ROOT / "docs" / "howto" / "celery-beat.md"
BIN = Path(sys.executable).parent
POLLED = re.compile(r"Task proj\.poll\[([\w-]+)\] succeeded")


class Reader:
    """Who reads the page, in a folder of their own."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder = folder
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
        (program,) = (block for block in blocks(PAGE) if block.options == "compile")
        written = program.text
        for word, instead in (("redis://localhost:6379/0", broker), ("2.0", "0.5")):
            assert written.count(word) == 1
            written = written.replace(word, instead)
        (folder / "proj.py").write_text(written)
        self.lines = [line for b in blocks(PAGE) if not b.language for line in b.text.splitlines()]

    def command(self, beginning: str) -> list[str]:
        """The command on the page that begins so."""
        (line,) = (line for line in self.lines if line.startswith(beginning))
        program, *words = shlex.split(line)
        return [str(BIN / program), *words]

    def nodes(self) -> int:
        """How many have joined."""
        present = (
            "SELECT name FROM tenure_lease WHERE name LIKE 'tenure/node/%' AND holder IS NOT NULL"
        )
        return len(Store(self.folder / "beat.db").rows(present))

    def run(self, beginning: str) -> str:
        _, *words = self.command(beginning)
        answer = at_hand(self.folder, *words)
        assert answer.code == 0, answer.err
        return answer.out

    @contextmanager
    def started(self, command: list[str], name: str) -> Iterator[Program]:
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        program = Program(name, process, log)
        try:
            yield program
        except AssertionError as error:
            raise AssertionError(f"{error}\n{program.output[-3000:]}") from error
        finally:
            if program.running:  # its children end with it, which they would not if it was killed
                program.signal(signal.SIGTERM)
                program.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    broker = ValkeyServer()
    try:
        broker.start()
        yield Reader(tmp_path, broker.url)
    finally:
        broker.close()


def test_entries_of_redbeat_and_django_become_schedules(tmp_path: Path) -> None:
    """The last section. Django writes `beat.json`: here it is as recorded from a real project."""
    broker = ValkeyServer()
    try:
        broker.start()
        reader = Reader(tmp_path, broker.url)
        for key, fields in json.loads((RECORDED / "redbeat.json").read_text()).items():
            for field, text in fields.items():
                broker.command("HSET", key, field, text)
        _, *words = reader.command("tenure import redbeat")
        words[words.index("redis://localhost:6379/1")] = broker.url
        answer = at_hand(tmp_path, *words)
    finally:
        broker.close()
    added = ("schedules", "add", "--file", "schedules.jsonl", "--url", "sqlite:///beat.db")
    assert "3 schedules carried over, 2 left out" in answer.err
    assert at_hand(tmp_path, "migrate", *added[-2:]).code == 0
    assert at_hand(tmp_path, *added).code == 0
    (tmp_path / "schedules.jsonl").unlink()  # who has both writes two files
    [dump] = (line for line in reader.lines if line.startswith("manage.py"))
    shutil.copy(RECORDED / "beat.json", tmp_path / dump.split()[-1])
    answer = at_hand(tmp_path, *reader.command("tenure import django-celery-beat")[1:])
    assert "3 schedules carried over, 3 left out" in answer.err
    renamed = (tmp_path / "schedules.jsonl").read_text().replace('"often"', '"often too"')
    (tmp_path / "schedules.jsonl").write_text(renamed)  # RedBeat's has that name
    assert at_hand(tmp_path, *added).code == 0
    listed = at_hand(tmp_path, "schedules", "list", *added[-2:])
    assert all(name in listed.out for name in ("weekends", "aligned", "mondays", "often too"))
    made = [sys.executable, "-c", "import schedule; print(*schedule.scheduler.tasks)"]
    environment = os.environ | {"TENURE_URL": added[-1]}
    told = subprocess.run(made, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert b"proj.report" in told.stdout


def test_workers_may_have_a_beat_in_each(reader: Reader) -> None:
    (shown,) = (code for code in inline_code(PAGE) if "worker -B" in code)
    program, *words = shlex.split(shown)
    command = [str(BIN / program), *words, "--loglevel", "info", "-c", "1"]
    with (
        reader.started(command, "one") as one,
        reader.started(command, "two") as two,
    ):
        until(lambda: POLLED.search(one.output + two.output), "a task that is executed")
        until(lambda: reader.nodes() == 2, "both beats")
        one.signal(signal.SIGTERM)
        assert one.wait() == 0
        there = len(POLLED.findall(two.output))
        until(lambda: len(POLLED.findall(two.output)) > there, "the other to go on")
        polled = POLLED.findall(one.output + two.output)
        assert len(set(polled)) == len(polled)


def test_the_page_can_be_followed(reader: Reader) -> None:
    worker, beat = reader.command("celery -A proj worker"), reader.command("celery -A proj beat")

    def polled(at_work: Program) -> list[str]:
        return POLLED.findall(at_work.output)

    with reader.started(worker, "worker") as at_work:
        with reader.started(beat, "one") as one, reader.started(beat, "two"):
            until(lambda: polled(at_work), "a task that is executed")
            until(lambda: reader.nodes() == 2, "both beats")
            shown = reader.run("tenure schedules list")
            assert "poll" in shown
            assert "report" in shown
            reader.run("tenure schedules pause report")
            there = len(polled(at_work))
            reader.run("tenure schedules run-now poll")
            until(lambda: len(polled(at_work)) > there, "what was asked for")
            one.signal(signal.SIGTERM)
            assert one.wait() == 0
            there = len(polled(at_work))
            until(lambda: len(polled(at_work)) > there, "the other beat to go on")
        assert len(set(polled(at_work))) == len(polled(at_work))
        # And back, with one option less.
        there = len(polled(at_work))
        with reader.started(beat[: beat.index("--scheduler")], "stock"):
            until(lambda: len(polled(at_work)) > there, "Celery's own scheduler")
