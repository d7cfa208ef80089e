"""Leases as locks and as leadership, each way once: python examples/locks.py

It ends by itself. Every line says what was asked for and what came of it. Two holders compete here
in one process; they would be refused in the same way from two processes or two containers.
"""

import threading

from tenure import Lease, LeaseHeld, Leases, Skipped


def plain_functions(leases: Leases) -> None:
    """Take, prolong, give back: nobody renews it but you."""
    lease = leases.acquire("import", ttl=30)
    assert lease is not None
    print(f"acquire: got it, term {lease.term}, trusted for {lease.remaining:.0f} s")
    print(f"acquire again: {leases.acquire('import')}")
    seen = leases.inspect("import")
    assert seen is not None
    print(f"inspect: held by process {seen.pid} on {seen.host}")
    print(f"renew: {lease.renew()}, release: {lease.release()}, release again: {lease.release()}")


def a_block(leases: Leases) -> None:
    """Held while a block runs, and renewed meanwhile."""
    with leases.hold("import", ttl=30) as lease:
        print(f"hold: term {lease.term}, greater than the one before")
        try:
            with leases.hold("import", wait=0.2):
                pass
        except LeaseHeld as held:
            term = held.record.term if held.record else None
            print(f"hold again: refused after 0.2 s, term {term} holds it")


def a_function(leases: Leases) -> None:
    """A function that runs in one place at a time."""

    @leases.exclusive("report")
    def report(within: bool = False) -> str:
        if within:
            return "ran twice at once"
        inner = report(within=True)
        return f"ran; a second call meanwhile was skipped: {isinstance(inner, Skipped)}"

    print(f"exclusive: {report()}")


def leadership(leases: Leases) -> None:
    """Campaign in the background; be told when this process leads, and when no longer."""
    began, ended = threading.Event(), threading.Event()

    def on_start(lease: Lease) -> None:
        print(f"lead: leading, term {lease.term}")
        began.set()

    me = leases.lead("reports", on_start, ended.set)
    began.wait(5)
    print(f"lead: is_leader is {me.is_leader}")
    me.stop()
    print(f"lead: stopped, on_stop was called: {ended.is_set()}, is_leader is {me.is_leader}")


if __name__ == "__main__":
    with Leases() as leases:  # $TENURE_URL, else sqlite:///tenure.db
        plain_functions(leases)
        a_block(leases)
        a_function(leases)
        leadership(leases)
