"""One child process: its socket, its output, its end.

It leads a process group of its own. A socket carries a request to it, words while it runs, and its
reply. If it is over its time, or not wanted any more, it is killed together with its group.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from tenure.process.clock import SystemClock

EXIT_GRACE = 2.0
"""How many seconds a child that has replied has to end."""
REPLY_LIMIT = 8 << 20
WORD = b"!"
"""A line that begins with this is a word while it runs; the first other one is its reply."""
_PORTION = 1 << 16
_TAIL = 2_000
_LAST = 32


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended."""

    reply: bytes | None = None
    """The line that it replied; None if it did not."""
    code: int | None = None
    """Its exit code; below 0, the signal that ended it; None if nobody knows."""
    killed: str | None = None
    """Why we killed it: "timeout"; "told", to end; or "reply", which is too long."""
    tail: str = ""
    """The last that it wrote."""
    error: str | None = None
    """Why it could not be started, or not be watched any more."""


class Child:
    """One of them. Everything but `tell` and `kill` belongs to the thread that watches it."""

    def __init__(
        self,
        order: Callable[[Callable[[], None]], None],
        request: bytes,
        timeout: float | None,
        output: Callable[[str], None],
        heard: Callable[[bytes], None],
        ended: Callable[[Ending], None],
    ) -> None:
        self._order = order
        self._timeout = timeout
        self._output = output
        self._on_word = heard
        self._ended = ended
        self._outgoing = bytearray(request)
        self._clock = SystemClock()
        self.deadline = float("inf")
        self.over = False
        self._killed: str | None = None
        self._reply: bytes | None = None
        self._heard = bytearray()
        self._line = bytearray()
        self._tail = b""
        self._pidfd = -1
        self._files = ExitStack()
        self._unreaped = False
        self._conversing = partial(self.guarded, self._converse)

    def tell(self, word: bytes, patience: float) -> None:
        """Say a word to it, and kill it if it is still there after so many seconds."""
        self._order(partial(self.guarded, self._tell, word, patience))

    def kill(self) -> None:
        self._order(partial(self.guarded, self._kill, "told"))

    # -- on the thread ----------------------------------------------------------------------------

    def guarded(self, job: Callable[..., object], *args: object) -> None:
        """Do it. What it raises ends this child, not the thread and with it all others."""
        if self.over:
            return
        try:
            job(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is to end
            self._give_up(error)

    def start(self, command: Sequence[str], selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._socket, theirs = socket.socketpair()
        self._files.enter_context(self._socket)
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._unreaped = True
        if self._timeout is not None:
            self.deadline = self._clock.monotonic() + self._timeout
        assert self._process.stdout is not None
        self._pipe = self._files.enter_context(self._process.stdout).fileno()
        for file in (self._socket.fileno(), self._pipe):
            os.set_blocking(file, False)
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._register(self._socket, both, self._conversing)
        self._register(self._pipe, selectors.EVENT_READ, partial(self.guarded, self._listen))
        with suppress(AttributeError, OSError):  # elsewhere than on Linux we poll
            self._pidfd = os.pidfd_open(self._process.pid)
            self._files.callback(os.close, self._pidfd)
            self._register(self._pidfd, selectors.EVENT_READ, lambda _: None)

    def _register(
        self, file: socket.socket | int, events: int, heard: Callable[[int], None]
    ) -> None:
        self._selector.register(file, events, heard)
        self._files.callback(self._unregister, file)

    def _unregister(self, file: socket.socket | int) -> None:
        with suppress(KeyError):
            self._selector.unregister(file)

    @property
    def polled(self) -> bool:
        return self._pidfd < 0

    def look(self) -> None:
        """Has it ended, or is it to end?"""
        if self.over:
            return
        if self._clock.monotonic() >= self.deadline:
            self._kill(self._killed or "timeout")
        if self._has_exited():
            self._bury()

    def _converse(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            try:
                del self._outgoing[: self._socket.send(self._outgoing)]
            except BlockingIOError:
                pass
            except OSError:
                self._outgoing.clear()
            if not self._outgoing:
                self._selector.modify(self._socket, selectors.EVENT_READ, self._conversing)
        if events & selectors.EVENT_READ:
            self._hear()

    def _hear(self) -> bool:
        """Take in a portion of what it says; False if there is none now."""
        try:
            heard = self._socket.recv(_PORTION)
        except BlockingIOError:
            return False
        except OSError:
            heard = b""
        if not heard:
            self._unregister(self._socket)
            return False
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            if line.startswith(WORD):
                self._on_word(bytes(line))
            elif self._reply is None:
                self._reply = bytes(line)
                self.deadline = self._clock.monotonic() + EXIT_GRACE
        if len(self._heard) > REPLY_LIMIT:
            self._kill("reply")
        return True

    def _listen(self, events: int = 0) -> bool:
        """Take in a portion of what it writes; False if there is none now."""
        try:
            heard = os.read(self._pipe, _PORTION)
        except BlockingIOError:
            return False
        if not heard:
            self._unregister(self._pipe)
            return False
        self._tail = (self._tail + heard)[-_TAIL:]
        self._line += heard
        lines, end, rest = self._line.rpartition(b"\n")
        if end or len(rest) > _PORTION:
            self._line = rest if end else bytearray()
            self._output((lines if end else rest).decode(errors="replace"))
        return True

    def _tell(self, word: bytes, patience: float) -> None:
        if not self.over and self._reply is None:
            self._outgoing += word
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            with suppress(KeyError):
                self._selector.modify(self._socket, both, self._conversing)
            self._killed = self._killed or "told"
            self.deadline = min(self.deadline, self._clock.monotonic() + patience)

    def _kill(self, why: str) -> None:
        if not self.over:
            self._killed = why
            self.deadline = float("inf")
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _has_exited(self) -> bool:
        """It is not reaped yet if it can be helped: until then its group's number is not reused."""
        try:
            if hasattr(os, "waitid"):
                flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self._process.pid, flags) is not None
        except ChildProcessError:  # the application reaps what it does not know
            return True
        return self._process.poll() is not None

    def _bury(self) -> None:
        self._kill_group()  # what it started and left behind
        code: int | None
        try:
            _, status = os.waitpid(self._process.pid, 0)
            code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            code = self._process.returncode
        self._unreaped = False
        self._process.returncode = code or 0  # `Popen` need not look again
        # No more than pipes hold: what it left behind may have escaped, and write for ever.
        for _ in range(_LAST):
            if not self._listen():
                break
        if self._line:
            self._output(self._line.decode(errors="replace"))
        for _ in range(_LAST):
            if self._socket not in self._selector.get_map() or not self._hear():
                break
        self._files.close()
        tail = self._tail.decode(errors="replace")
        self._finish(Ending(self._reply, code, self._killed, tail))

    def _give_up(self, error: Exception) -> None:
        if self.over:
            return
        if self._unreaped:
            self._kill_group()
            self._process.wait()
        self._files.close()
        self._finish(Ending(self._reply, error=f"{type(error).__name__}: {error}"))

    def _finish(self, ending: Ending) -> None:
        self.over = True
        self._ended(ending)
