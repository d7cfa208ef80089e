"""Child processes, spawned and watched on one thread.

Each child is spawned, never forked. The thread lives as long as its children do: Linux ties a child
that asks for it to the *thread* that spawned it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from tenure.process.child_process import Child, Ending
from tenure.process.clock import SystemClock

_POLL = 0.05
"""How often to look whether a child has ended, where the kernel does not tell."""


class Children:
    """All children of one node."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._orders: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        self._children: list[Child] = []
        self._closing = False
        self._clock = SystemClock()

    def spawn(
        self,
        command: Sequence[str],
        request: bytes,
        timeout: float | None,
        output: Callable[[str], None],
        heard: Callable[[bytes], None],
        ended: Callable[[Ending], None],
    ) -> Child:
        """Start `command`, with the number of its end of the socket as one more argument. It reads
        the request there. `output`, `heard` for each word, and `ended` are called on the thread of
        the children, and must not raise."""
        child = Child(self._order, request, timeout, output, heard, ended)
        self._order(partial(self._start, child, command))
        return child

    def close(self) -> None:
        """Kill those that are left, and end the thread; do not wait for that."""
        if self._thread is not None:
            self._order(self._close)

    def _order(self, job: Callable[[], None]) -> None:
        """Have it done on the thread; if there can be none, it never is, and this raises."""
        with self._guard:
            if self._thread is None:
                self._begin()
            self._orders.append(job)
            if self._wake is not None:
                with suppress(OSError):  # it is awake, or has ended
                    self._wake.send(b"!")

    def _begin(self) -> None:
        with ExitStack() as opened:
            selector = opened.enter_context(selectors.DefaultSelector())
            ours, wake = map(opened.enter_context, socket.socketpair())
            for end in (ours, wake):
                end.setblocking(False)
            selector.register(ours, selectors.EVENT_READ, partial(_drain, ours))
            thread = threading.Thread(
                target=self._watch, args=(selector, ours), name="tenure-children", daemon=True
            )
            self._selector, self._wake = selector, wake
            thread.start()
            self._thread = thread
            opened.pop_all()

    def _start(self, child: Child, command: Sequence[str]) -> None:
        self._children.append(child)
        child.guarded(child.start, command, self._selector)

    def _close(self) -> None:
        self._closing = True
        for child in self._children:
            child.kill()

    def _watch(self, selector: selectors.BaseSelector, woken: socket.socket) -> None:
        with selector, woken:
            while self._children or self._orders or not self._closing:
                while self._orders:
                    self._orders.popleft()()
                for key, events in selector.select(self._pause()):
                    key.data(events)
                for child in self._children:
                    child.guarded(child.look)
                self._children = [child for child in self._children if not child.over]
        with self._guard:
            if self._wake is not None:
                self._wake.close()
                self._wake = None

    def _pause(self) -> float | None:
        if self._orders or (self._closing and not self._children):
            return 0.0
        until = min((child.deadline for child in self._children), default=float("inf"))
        pause = until - self._clock.monotonic()
        if any(child.polled for child in self._children):
            pause = min(pause, _POLL)
        return None if pause == float("inf") else max(0.0, pause)


def _drain(woken: socket.socket, events: int) -> None:
    with suppress(BlockingIOError):
        woken.recv(4_096)
