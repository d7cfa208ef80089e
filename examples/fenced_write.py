"""A write of a past holder is refused, inside your own transaction: python examples/fenced_write.py

A holder freezes (here: an operator evicts it), another takes over and writes. When the first one
wakes up it still believes that it may write. `lease.fence(connection)` makes its transaction fail,
so the balance below is the second holder's. The program shows that and ends.
"""

import sqlite3
from contextlib import closing

from tenure import Fenced, Lease, Leases

FILE = "accounts.db"


def write(lease: Lease, balance: int) -> str:
    with closing(sqlite3.connect(FILE)) as connection:
        try:
            with connection:  # one transaction: committed, or rolled back by an exception
                lease.fence(connection)  # first: begins it, and raises Fenced if a newer term wrote
                connection.execute("UPDATE account SET balance = ?", (balance,))
        except Fenced as refused:
            return f"refused: {refused}"
    return "written"


def main() -> None:
    with Leases(f"sqlite:///{FILE}") as leases:
        first = leases.acquire("accounts", ttl=30)
        assert first is not None
        with closing(sqlite3.connect(FILE)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS account (balance INTEGER)")
            connection.execute("DELETE FROM account")
            connection.execute("INSERT INTO account VALUES (0)")
        print(f"term {first.term} writes 100: {write(first, 100)}")

        leases.evict("accounts", "it hangs")
        second = leases.acquire("accounts", ttl=30)
        assert second is not None
        print(f"term {second.term} writes 200: {write(second, 200)}")
        print(f"term {first.term} writes 300: {write(first, 300)}")

        with closing(sqlite3.connect(FILE)) as connection:
            (balance,) = connection.execute("SELECT balance FROM account").fetchone()
            print(f"balance: {balance}")
        second.release()


if __name__ == "__main__":
    main()
