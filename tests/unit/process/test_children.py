"""Real children of this process: what they say, how they end, and that they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.process import child_process
from tenure.process.child_process import Child, Ending
from tenure.process.children import Children

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no process groups")

SOCKET = "import socket, sys, os, time; s = socket.socket(fileno=int(sys.argv[-1]))\n"
REPLIES = SOCKET + "line = s.makefile().readline(); s.sendall(line.encode())"


class Started:
    """A child, and what came of it."""

    def __init__(
        self, children: Children, code: str, request: bytes = b"hello\n", timeout: float = 30.0
    ) -> None:
        self.output: list[str] = []
        self.words: list[bytes] = []
        self._ending: Ending | None = None
        self._ended = threading.Event()
        command = [sys.executable, "-S", "-E", "-c", code]
        self.child: Child = children.spawn(
            command, request, timeout, self.output.append, self.words.append, self._take
        )

    def _take(self, ending: Ending) -> None:
        self._ending = ending
        self._ended.set()

    def ending(self) -> Ending:
        assert self._ended.wait(60)
        assert self._ending is not None
        return self._ending

    def says(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in "\n".join(self.output):
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_request_goes_in_and_the_reply_comes_out(children: Children) -> None:
    assert Started(children, REPLIES).ending() == Ending(b"hello", 0)


def test_words_before_the_reply_are_heard(children: Children) -> None:
    started = Started(children, SOCKET + r"s.sendall(b'!one\n!two\nreply\nmore\n')")
    assert started.ending().reply == b"reply"
    assert started.words == [b"!one", b"!two"]


def test_long_requests_of_many_arrive(children: Children) -> None:
    line = b"x" * 1_000_000 + b"\n"
    started = [Started(children, REPLIES, line) for _ in range(3)]
    assert [one.ending().reply for one in started] == [line[:-1]] * 3


def test_both_streams_are_heard_line_by_line(children: Children) -> None:
    code = "import sys; print('one'); print('zwei ö', file=sys.stderr); sys.stdout.write('end')"
    started = Started(children, f"import sys; sys.stdout.reconfigure(encoding='utf-8')\n{code}")
    ending = started.ending()
    assert sorted("\n".join(started.output).split("\n")) == ["end", "one", "zwei ö"]
    assert "one" in ending.tail
    assert ending.reply is None


def test_child_that_writes_much_is_heard_to_its_end(children: Children) -> None:
    started = Started(children, "for _ in range(10_000): print('x' * 1023)")
    started.ending()
    assert sum(len(text) + 1 for text in started.output) == 10_000 * 1_024


@pytest.mark.parametrize("code", [0, 3])
def test_exit_without_a_reply_is_told(children: Children, code: int) -> None:
    assert Started(children, f"import os; os._exit({code})").ending() == Ending(None, code)


def test_signal_that_ended_it_is_told(children: Children) -> None:
    started = Started(children, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert started.ending().code == -signal.SIGKILL


def test_timeout_kills_it_and_its_group(children: Children) -> None:
    sleeper = "[sys.executable, '-S', '-c', 'import time; time.sleep(600)']"
    code = f"import subprocess, sys, time; print(subprocess.Popen({sleeper}).pid, flush=True)"
    output: list[str] = []
    for timeout in (1.0, 4.0, 16.0):  # until it suffices for the start
        started = Started(children, f"{code}\ntime.sleep(600)", timeout=timeout)
        ending = started.ending()
        assert (ending.reply, ending.killed, ending.code) == (None, "timeout", -signal.SIGKILL)
        if output := started.output:
            break
    deadline = time.monotonic() + 30
    while not is_gone(int(output[0])):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_word_is_heard_and_a_child_that_goes_on_is_killed(children: Children) -> None:
    hears = SOCKET + "f = s.makefile()\nf.readline(); print('begun', flush=True)\n"
    polite = Started(children, hears + "s.sendall(f.readline().encode())")
    deaf = Started(children, hears + "time.sleep(600)")
    for one, patience in ((polite, 30.0), (deaf, 0.5)):
        one.says("begun")
        one.child.tell(b"stop\n", patience)
    assert polite.ending().reply == b"stop"
    assert (deaf.ending().reply, deaf.ending().killed) == (None, "told")


def test_child_that_has_replied_and_does_not_end_is_killed_and_its_reply_counts(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "EXIT_GRACE", 0.2)
    assert Started(children, REPLIES + "; time.sleep(600)").ending().reply == b"hello"


def test_child_with_a_pipe_that_others_keep_open_ends_when_it_ends(children: Children) -> None:
    code = SOCKET + "if os.fork() == 0: os.setsid(); time.sleep(40); os._exit(0)\n"
    begun = time.monotonic()
    assert Started(children, code).ending().code == 0
    assert time.monotonic() - begun < 30


def test_without_the_kernels_word_its_end_is_seen_too(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)
    assert Started(children, REPLIES).ending() == Ending(b"hello", 0)
    assert Started(children, "import os; os._exit(3)").ending() == Ending(None, 3)


def test_what_cannot_be_started_is_told(children: Children) -> None:
    heard: list[Ending] = []
    ended = threading.Event()

    def take(ending: Ending) -> None:
        heard.append(ending)
        ended.set()

    children.spawn(["/nowhere/python"], b"", None, print, print, take)
    assert ended.wait(30)
    assert "FileNotFoundError" in (heard[0].error or "")


def test_close_kills_those_that_are_left_and_ends_the_thread() -> None:
    children = Children()
    started = Started(children, "import time; print('begun', flush=True); time.sleep(600)")
    started.says("begun")
    children.close()
    assert started.ending().killed == "told"
    assert children._thread is not None
    children._thread.join(timeout=30)
    assert not children._thread.is_alive()


def test_application_that_reaps_all_children_costs_no_more_than_the_exit_code() -> None:
    """In a process of its own: SIGCHLD belongs to all threads."""
    code = """
import signal, threading
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from tests.unit.process.test_children import Children, Started, REPLIES
children = Children()
ending = Started(children, REPLIES).ending()
assert ending.reply == b"hello", ending
assert Started(children, "import os; os._exit(3)").ending().reply is None
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=60)


@pytest.mark.parametrize("begun", [True, False], ids=["its thread runs", "it has no thread yet"])
def test_child_for_which_no_file_is_left_ends_at_once_and_the_next_one_runs(begun: bool) -> None:
    """In a process of its own: the limit holds for all of it."""
    code = f"""
import os, resource, sys
from tests.unit.process.test_children import Children, Ending, Started, REPLIES, SOCKET
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
children = Children()
if {begun}:
    assert Started(children, REPLIES).ending().reply == b"hello"
    other = Started(children, SOCKET + "f = s.makefile(); f.readline(); print('begun', flush=True)"
        "; s.sendall(f.readline().encode())")
    other.says("begun")
for left in range(12):
    opened = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for _ in range(left):
        os.close(opened.pop())
    try:
        refused = Started(children, "print('must not run')")
        ending = refused.ending()
        assert ending.code == 0 or "Too many open files" in (ending.error or ""), ending
        assert left or ending.error, ending
    except OSError:
        assert not {begun}
    for file in opened:
        os.close(file)
    assert len(children._orders) == 0
    assert Started(children, REPLIES).ending() == Ending(b"hello", 0)
    {begun} or children.close()
    children = children if {begun} else Children()
if {begun}:
    other.child.tell(b"stop\\n", 20.0)
    assert other.ending().reply == b"stop"
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=120)


def test_exception_while_it_is_watched_ends_one_child_and_no_other(children: Children) -> None:
    waits = SOCKET + "f = s.makefile(); f.readline(); print('begun', flush=True)\n"
    other = Started(children, waits + "s.sendall(f.readline().encode())")
    other.says("begun")
    endings: list[Ending] = []
    ended = threading.Event()

    def broken(text: str) -> None:
        raise ValueError(f"cannot take {text}")

    def take(ending: Ending) -> None:
        endings.append(ending)
        ended.set()

    command = [sys.executable, "-S", "-E", "-c", waits + "time.sleep(600)"]
    children.spawn(command, b"hello\n", 30.0, broken, print, take)
    assert ended.wait(20)
    assert endings == [Ending(error="ValueError: cannot take begun")]
    other.child.tell(b"stop\n", 20.0)
    assert other.ending().reply == b"stop"
