"""Who this process is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenure.process.identity import is_dead, is_gone, new_holder


def test_every_holder_is_another_of_the_same_process() -> None:
    one, other = new_holder(), new_holder()
    assert one.id != other.id
    assert one.pid == other.pid == os.getpid()
    assert (one.host, one.boot, one.started) == (other.host, other.boot, other.started)
    assert not is_dead(one)


def test_a_forked_child_is_not_its_parent() -> None:
    code = """
import os
from tenure.process.identity import new_holder
parent, (read, write) = new_holder(), os.pipe()
pid = os.fork()
if pid == 0:
    os.write(write, str(new_holder().pid).encode())
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert int(os.read(read, 20)) == pid != parent.pid
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells pid namespaces apart")
def test_a_pid_that_nobody_has_is_proof_within_its_namespace_only() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=30)
    here = new_holder().pid_namespace
    assert is_gone(ended.pid, here)
    assert not is_gone(ended.pid, "pid:[1]")
    assert not is_gone(ended.pid, "")
    assert not is_gone(os.getpid(), here)
    assert not is_gone(1 << 80, here)
