"""What happens, while it happens: a line that changes on a terminal, else a line now and then."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self, TextIO

from tests.faults.torture.report import Tally, percentile

ON_TERMINAL, IN_FILE = 0.5, 5.0
"""Seconds from one line to the next."""


class Progress:
    """Says it on a thread of its own, since the torture waits for the cluster all the time."""

    def __init__(self, store: str, tally: Tally, output: TextIO) -> None:
        self._store = store
        self._tally = tally
        self._output = output
        self._live = output.isatty()
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._say()
        if self._live:
            print(file=self._output)

    def _go_on(self) -> None:
        while not self._over.wait(ON_TERMINAL if self._live else IN_FILE):
            self._say()

    def _say(self) -> None:
        tally = self._tally
        tally.look()
        passed = time.monotonic() - self._begun
        parts = [f"[{passed:6.0f} s] {self._store}:"]
        parts += [f"{what} {times}," for what, times in tally.harms.items()]
        parts.append(f"term {tally.terms}, executed {tally.executed:,}")
        if tally.late:
            late = sorted(tally.late)
            parts.append(f"late p50 {percentile(late, 50):.3f} s, worst {late[-1]:.2f} s")
        line = " ".join(parts)
        if self._live:
            print(f"\r\x1b[2K{line}", end="", file=self._output, flush=True)
        else:
            print(line, file=self._output, flush=True)
