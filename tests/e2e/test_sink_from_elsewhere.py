"""A sink of another package, found by its entry point: `tenure relay` delivers to it by its URL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tenure import Event, Scheduler
from tests.e2e.command import EXECUTABLE, PATIENCE, at_hand, until

STORE = ("--url", "sqlite:///jobs.db")
MODULE = '''
from pathlib import Path

from tenure import ConfigError
from tenure.events.cloudevents import structured
from tenure.events.sinks.base import DELIVERED, SinkScheme, by_key


class LinesSink:
    """A line of a file for each event."""

    def __init__(self, path):
        self.location = "lines://"
        self.path = path

    def lane(self, event):
        return by_key(event)

    async def open(self):
        pass

    async def send(self, batch, seconds):
        with self.path.open("ab") as file:
            for outgoing in batch:
                file.write(structured(outgoing.event) + b"\\n")
        return [DELIVERED] * len(batch)

    async def close(self):
        pass


def parse(place):
    path = place.url.partition("://")[2]
    if not path:
        raise ConfigError("a lines:// URL names a file: lines:///path.")
    return lambda: LinesSink(Path(path))


SCHEME = SinkScheme(parse)
'''


def install(folder: Path) -> dict[str, str]:
    """As pip leaves a package; the environment in which it is found."""
    (folder / "tenure_lines.py").write_text(MODULE)
    about = folder / "tenure_lines-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tenure-lines\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tenure.sinks]\nlines = tenure_lines:SCHEME\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_relay_delivers_to_it(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", *STORE).code == 0
    site = tmp_path / "site"
    site.mkdir()
    environ = install(site)
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    for n in range(5):
        scheduler.emit(Event("ledger", "Said", n, key="a"), id=f"id-{n}")
    scheduler.stop()
    file = tmp_path / "lines"
    command = [str(EXECUTABLE), "relay", "--to"]
    refused = subprocess.run(
        [*command, "lines://", *STORE],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (refused.returncode, "names a file" in refused.stderr) == (2, True), refused
    process = subprocess.Popen([*command, f"lines://{file}", *STORE], cwd=tmp_path, env=environ)
    try:
        until(lambda: file.exists() and len(file.read_text().splitlines()) >= 5, "all events")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == [f"id-{n}" for n in range(5)]
    [relay] = at_hand(tmp_path, "events", "relays", *STORE, "--json").json
    assert (relay["relay"], relay["position"]) == ("lines", 5)
