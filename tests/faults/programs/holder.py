"""Holds the lease "guard" whenever it can, and journals until when it trusts itself to.

trusting    it believes every Redis, also one that began anew: a broken variant, which the checkers
            must notice
"""

from __future__ import annotations

import logging
import select
import time

from tenure import Lease, LeaseLost, Leases, StoreUnavailable
from tests.faults.programs.common import Options, start
from tests.faults.programs.machine import pretend

PAUSE = 0.02


def main(options: Options) -> None:
    pretend(options.get("machine"))
    if options.get("trusting"):
        _trust_every_server()
    leases = Leases(options["url"])
    options.write("asked")
    while not _told(options):
        try:
            with leases.hold("guard", ttl=options["ttl"], wait=None) as lease:
                _trust(options, lease)
        except LeaseLost as lost:
            options.write("lost", error=str(lost))
        except StoreUnavailable as error:
            options.write("refused", error=str(error))
            time.sleep(0.1)
    leases.close()


def _trust(options: Options, lease: Lease) -> None:
    """Every entry says: I trust it from `boot` until `until`, on the boot clock."""
    options.write("entered", term=lease.term, boot=boot_clock())
    told = 0.0
    while not _told(options) and lease._held.over is None:
        now = boot_clock()
        until = now + lease.remaining
        if lease.held and until > told + 0.01:
            told = until
            options.write("trusts", term=lease.term, boot=now, until=until)
        time.sleep(PAUSE)
    options.write("lets go", term=lease.term, boot=boot_clock())


def _trust_every_server() -> None:
    from tenure.backends.redis import keys

    never, read = "local function began_anew() return false, 0 end\n", keys.script
    vars(keys)["script"] = lambda name: never if name == "began" else read(name)


def boot_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _told(options: Options) -> bool:
    """To leave, or that the test is over."""
    return options.journal.path.with_name(f"{options.who}.leave").exists() or bool(
        select.select([0], [], [], 0)[0]
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
