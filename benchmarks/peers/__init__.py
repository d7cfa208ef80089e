"""Other schedulers, measured in the same run: each in an environment of its own, pinned.

A peer is a module here, named after it, with its pins beside it. The module is a program that runs
in that environment, where there is no Tenure: it is given a place and a number of schedules that
are all due, and tells in how many seconds it has fired them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".peers"
PEERS = {
    "sqlite": ("apscheduler3",),
    "postgres": ("apscheduler3", "apscheduler4", "procrastinate", "pgqueuer"),
}
"""By the store on which they are measured."""
PATIENCE = 300.0


def python(peer: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The interpreter of the peer's environment, which is made if it is not there."""
    pins = Path(__file__).with_name(f"{peer}.txt")
    folder = ENVIRONMENTS / peer
    found, made_of = folder / "bin" / "python", folder / "made of"
    if made_of.is_file() and made_of.read_bytes() == pins.read_bytes():
        return found
    say(f"{peer}: makes its environment in {folder.relative_to(ROOT)}")
    run = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([sys.executable, "-m", "venv", "--clear", str(folder)])
    _call([*run, "--requirement", str(pins)])
    made_of.write_bytes(pins.read_bytes())  # last: what is half made is made again
    return found


def version(peer: str) -> str:
    """The peer as it is pinned, for people: "APScheduler 3.11.3"."""
    pins = Path(__file__).with_name(f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    named = (line.split("==") for line in pins)
    (found,) = [(n, v) for n, v in named if n.lower() == peer.rstrip("34")]
    return " ".join(found)


def fire(interpreter: Path | str, peer: str, url: str, count: int) -> float:
    """How many schedules the peer fires a second, with so many due."""
    options = json.dumps({"url": url, "due": count})
    told = _call([str(interpreter), "-m", f"{__name__}.{peer}", options])
    result: dict[str, Any] = json.loads(told.splitlines()[-1])
    assert result["fired"] == count, result
    return count / float(result["seconds"])


def _call(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
