"""Let one process at a time do something, whatever starts the processes.

    python examples/single_instance.py             in one terminal
    python examples/single_instance.py             in another: it says who is in the way, and ends
    python examples/single_instance.py skip        it goes on without
    python examples/single_instance.py wait        it waits; kill the first one and watch

The guard is a lease in tenure.db, or in the database that $TENURE_URL names.
"""

import os
import sys
import time

from tenure import LeaseHeld, single_instance


def main(on_held: str) -> int:
    if on_held not in ("raise", "skip", "wait"):
        print("usage: single_instance.py [raise|skip|wait]")
        return 2
    try:
        with single_instance(name="importer", on_held=on_held, ttl=5) as guard:  # type: ignore[arg-type]
            if guard.lease is None:
                print(f"process {guard.holder and guard.holder.pid} is active; going on without")
                return 0
            print(f"process {os.getpid()} is active, term {guard.lease.term}", flush=True)
            for _ in range(600):
                guard.lease.check()  # between steps: raises LeaseLost if it was lost
                time.sleep(0.1)  # one step of the work
    except LeaseHeld as held:
        print(held)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "raise"))
    except KeyboardInterrupt:
        print("stopped; the guard is free")
