"""How a lease ends is told as it was: given back, lost, taken over; or the program ended."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading

import pytest

from tenure import AsyncLeases, LeaseLost, Leases
from tests.unit.leases.everywhere import everywhere


@everywhere
def test_lease_that_the_block_gives_back_is_not_lost(url: str) -> None:
    with Leases(url) as leases, leases.hold("job") as lease:
        assert lease.release()
        again = leases.acquire("job")
        assert again is not None


async def test_the_same_awaited(url: str) -> None:
    async with AsyncLeases(url) as leases, leases.hold("job") as lease:
        assert await lease.release()
        assert await leases.acquire("job") is not None


@everywhere
def test_lease_that_could_not_be_given_back_is_lost(url: str) -> None:
    with Leases(url) as leases:
        hold = leases.hold("job")
        lease = hold.__enter__()
        leases.evict("job")
        assert not lease.release()
        with pytest.raises(LeaseLost, match="while the block ran"):
            hold.__exit__(None)


SCRIPT = """
    import logging, sys
    from tenure import Leases
    logging.basicConfig(level="WARNING")
    logging.getLogger("asyncio").setLevel("ERROR")  # that this machine is slow is not the point
    leases = Leases(sys.argv[1])
    leases.acquire("one", ttl=60)
    leases.hold("two", ttl=60).__enter__()
    leases.lead("three", ttl=60)
    print("end")
"""


@everywhere
def test_program_that_does_not_close_ends_without_a_word_and_frees_what_it_kept(url: str) -> None:
    code = textwrap.dedent(SCRIPT)
    command = [sys.executable, "-X", "dev", "-c", code, url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
    with Leases(url) as leases:
        record = leases.inspect("two")
        assert record is not None
        assert record.holder is None  # released, not merely of a dead process


DROPPED = """
    import asyncio, gc, sys
    from tenure import AsyncLeases, Leases, single_instance
    url = sys.argv[1]
    Leases(url).acquire("one", ttl=60)
    Leases(url).inspect("one")
    single_instance(url, name="two", ttl=60).__enter__()

    async def main():
        await AsyncLeases(url).acquire("three", ttl=60)

    asyncio.run(main())
    gc.collect()
    print(Leases(url).inspect("two").live)
"""


@everywhere
def test_leases_that_nobody_refers_to_are_kept_until_the_program_ends_quietly(url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(DROPPED), url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")
    with Leases(url) as leases:
        record = leases.inspect("two")
        assert record is not None
        assert record.holder is None


def test_takeover_is_told_with_whom_and_why(url: str, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()
    told_of: list[str] = []

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "event", "") == "lease.taken_over":
                told_of.append(f"{record.levelname} {record.getMessage()}")
                told.set()

    hears = Hears()
    caplog.set_level(logging.INFO, "tenure.lease")
    logging.getLogger("tenure.lease").addHandler(hears)
    try:
        with Leases(url) as first, Leases(url) as second:
            lost = first.acquire("job", ttl=0.5)
            assert lost is not None
            taken = None
            while taken is None:
                taken = second.acquire("job", ttl=30)
            assert told.wait(20)
    finally:
        logging.getLogger("tenure.lease").removeHandler(hears)
    [line] = told_of
    assert line.startswith(f"INFO lease.taken_over lease=job term={taken.term}")
    assert f"predecessor={lost.holder}" in line
    assert "reason=expired" in line
    silent = float(line.partition("silent=")[2].partition(" ")[0])
    assert silent >= 0.5
