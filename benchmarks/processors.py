"""What else the machine's processors were doing: others' work before, and the host's meanwhile.

Read from the kernel's counters. Where there are none, nothing is said.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.15
"""A share of the processors' time that somebody used before the run: its figures are marked."""
IDLE, WAITING, STOLEN = 3, 4, 7
STOLEN_FACT = "stolen by the host"


@dataclass(frozen=True)
class Shares:
    """Of all processors' time."""

    busy: float
    stolen: float


class Stretch:
    """A stretch of time, from now on."""

    def __init__(self) -> None:
        self._before = _ticks()

    def shares(self) -> Shares | None:
        """How they were used until now; None where nobody tells."""
        before, after = self._before, _ticks()
        if before is None or after is None:
            return None
        spent = [end - begin for begin, end in zip(before, after, strict=True)]
        whole = sum(spent)
        if whole <= 0:
            return None
        return Shares(1 - (spent[IDLE] + spent[WAITING]) / whole, spent[STOLEN] / whole)


def family_seconds(pid: int) -> float:
    """How long this process and its children have been on a processor, also those that ended and
    were seen off by it. 0 where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return 0.0
    ended = sum(int(field) for field in fields[13:15]) / os.sysconf("SC_CLK_TCK")
    return ended + sum(_on_processor(member) for member in (str(pid), *children))


def _on_processor(pid: str) -> float:
    """To the nanosecond: ticks of 10 ms would hide what hundreds of idle processes do."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    except OSError:  # ended meanwhile
        return 0.0


def busy_before(seconds: float) -> dict[str, str]:
    """What is going on without us."""
    stretch = Stretch()
    time.sleep(seconds)
    return busy(stretch.shares())


def busy(shares: Shares | None) -> dict[str, str]:
    if shares is None:
        return {}
    marked = ", INDICATIVE ONLY: the machine was busy" if shares.busy > BUSY else ""
    return {"busy before": f"{shares.busy:.0%}{marked}"}


def stolen(whole: Shares | None, each: Mapping[str, Shares | None]) -> dict[str, str]:
    """In all, and for each benchmark: of a host that is busy for half a minute the former shows
    nothing."""
    if whole is None:
        return {}
    named = [f"{name} {shares.stolen:.1%}" for name, shares in each.items() if shares is not None]
    return {STOLEN_FACT: f"{whole.stolen:.1%} of the time ({', '.join(named)})"}


def _ticks() -> list[int] | None:
    """Of all processors since they were started, by what they were used for."""
    try:
        line = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
        return [int(number) for number in line.split()[1:9]]
    except (OSError, ValueError):
        return None
