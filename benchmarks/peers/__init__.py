"""Other schedulers, measured in the same run: each in an environment of its own, pinned.

A peer is a module here, named after it, with its pins beside it. The module is a program that runs
in that environment, where there is no Tenure: it is given a place and a number of schedules that
are all due, and tells in how many seconds it has fired them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".peers"
PEERS = {
    "sqlite": ("apscheduler3",),
    "postgres": ("apscheduler3", "apscheduler4", "procrastinate", "pgqueuer"),
}
"""By the store on which they are measured."""
WORKERS: dict[str, tuple[str, ...]] = {
    "sqlite": ("huey",),
    "postgres": ("procrastinate", "pgqueuer"),
}
"""Of these also the workers: a second module, which is given as many jobs that wait, and tells in
how many seconds it has executed them."""
STEADY: dict[str, tuple[str, ...]] = {"sqlite": (), "postgres": ("procrastinate", "pgqueuer")}
"""Of these how they start schedules of every second: a third module."""
PATIENCE = 300.0
PROMISING = 0.5
"""A peer that reached less than this part of the best is not asked again: it takes too long."""


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
    (found,) = [(n, v) for n, v in named if n.lower().endswith(peer.rstrip("34"))]
    return " ".join(found)


def promising(speeds: Mapping[str, Sequence[float]]) -> list[str]:
    """Those who are asked in the next round, by what they have reached until now."""
    best = max((max(each) for each in speeds.values() if each), default=0.0)
    return [peer for peer, each in speeds.items() if max(each, default=best) >= PROMISING * best]


def fire(interpreter: Path | str, peer: str, url: str, count: int) -> float:
    """How many schedules the peer fires a second, with so many due."""
    return _drive(interpreter, peer, url, count)


def execute(interpreter: Path | str, peer: str, url: str, count: int) -> float:
    """How many jobs the peer's worker executes a second, with so many waiting."""
    return _drive(interpreter, f"{peer}_worker", url, count)


class Started(NamedTuple):
    """What a peer started in a stretch of time."""

    share: float
    """Of all that was due, in per cent."""
    lates: list[float]
    """Seconds; none if it does not tell what was due."""


def steady(interpreter: Path | str, peer: str, url: str, rate: int, seconds: float) -> Started:
    """So many schedules of every second, for so long."""
    options = {"url": url, "due": rate, "seconds": seconds}
    result = _tell(interpreter, f"{peer}_steady", options)
    return Started(100 * result["started"] / (rate * seconds), result["lates"])


def _drive(interpreter: Path | str, module: str, url: str, count: int) -> float:
    result = _tell(interpreter, module, {"url": url, "due": count})
    assert result["fired"] == count, result
    return count / float(result["seconds"])


def _tell(interpreter: Path | str, module: str, options: dict[str, object]) -> dict[str, Any]:
    told = _call([str(interpreter), "-m", f"{__name__}.{module}", json.dumps(options)])
    result: dict[str, Any] = json.loads(told.splitlines()[-1])
    return result


def _call(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
