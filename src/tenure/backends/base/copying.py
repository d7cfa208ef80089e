"""What `tenure copy` asks of a store: its rows in a form that all SQL stores share, and a barrier.

A row in that form is a tuple of integers, floats, texts and None: times are microseconds since
1970, flags 0 and 1, keys of occurrences texts. Two rows are equal if and only if they mean the
same, whichever stores they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
Value = int | float | str | None
Row = tuple[Value, ...]
Role = Literal["source", "target"]
Barrier = Literal["fence", "all"]

REFUSED = "copying: "
"""How each refusal of a barrier begins."""
UNCOPIED = frozenset({"lease"})
"""Tables that stay behind. A lease is held by a process that knows only the old store; of it, the
term counts, and that is carried over as the high-water term."""
NO_DATA = frozenset({"meta", "migration"})
"""Tables about the schema itself."""
MOST_TERM = 2**53 - 1
"""Greater numbers are no terms: they were put there by hand."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table as all SQL stores have it."""

    name: str
    columns: tuple[str, ...]
    """By name."""
    key: tuple[str, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Where in a row the key is."""
        return tuple(self.columns.index(column) for column in self.key)

    def key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self.places)


@dataclass(frozen=True, slots=True)
class CopyMark:
    """What a store knows of the copy that it is a part of."""

    id: str
    phase: Literal["copying", "complete", "draining", "moved"]
    """Of a target: copying, complete. Of a source: draining (nothing fires), moved (nothing is
    written)."""
    source: str
    target: str
    """Where they are, without passwords."""
    at: int
    """When this phase began, in microseconds since 1970."""

    @property
    def warning(self) -> str | None:
        """What people must know of a store with this mark; None if it is in use as usual."""
        if self.phase == "complete":
            return None
        if self.phase == "copying":
            return (
                f"this store is being filled from {self.source} and cannot be used yet: wait for"
                " `tenure copy`, or run it again"
            )
        finish = "run `tenure copy SOURCE TARGET` again to finish, or with --abort to go back"
        if self.phase == "draining":
            return f"this store is being moved to {self.target}, and nothing fires: {finish}"
        return (
            f"this store was moved to {self.target}: start nodes and commands with that URL. If"
            f" the copy was interrupted, {finish}"
        )


class CopySide(Protocol):
    """One blocking connection to a store. Errors of drivers are raised as `StoreError`."""

    @property
    def location(self) -> str: ...

    def close(self) -> None: ...

    def write(self, work: Callable[[], T]) -> T:
        """Run `work` in one transaction, in which the barrier does not hold. No other call of this
        runs at the same time, in any process. Repeated while others hold locks that it needs, for a
        minute at most: then `StoreUnavailable`."""
        ...

    def check_rights(self) -> None:
        """`StoreError` if this connection may not put up a barrier, or create the tables that it
        would need: better now than when the source has stopped firing."""
        ...

    def tables(self) -> dict[str, CopiedTable]:
        """All with data, from the schema itself; also those that are `UNCOPIED`."""
        ...

    def count(self, table: str) -> int: ...

    def pages(self, table: CopiedTable, size: int) -> Iterator[list[Row]]:
        """All rows, in an order of the store's own; each page by a read of its own."""
        ...

    def find(self, table: CopiedTable, keys: Sequence[Row]) -> list[Row]:
        """The rows with these keys."""
        ...

    def insert(self, table: CopiedTable, rows: Sequence[Row], *, lenient: bool) -> None:
        """`lenient`: leave out what contradicts a row that is there."""
        ...

    def delete(self, table: CopiedTable, keys: Sequence[Row]) -> None: ...

    def empty(self, table: str) -> None:
        """Delete all rows."""
        ...

    def mark(self, role: Role) -> CopyMark | None: ...

    def set_mark(self, role: Role, mark: CopyMark | None) -> None: ...

    def refuse(self, barrier: Barrier, scope: str, text: str) -> None:
        """Put up a barrier in place of the present one, if any. `fence`: nobody takes office in
        this scope. `all`: nobody writes to any table. Each attempt fails with `text`."""
        ...

    def admit(self) -> None:
        """Take down the barrier."""
        ...

    def take_office(self, scope: str, holder: str) -> int:
        """In every namespace, with a term above all that it has ever had, which becomes the
        high-water term too. Returns the greatest."""
        ...

    def claimed(self) -> int:
        """How many runs are claimed."""
        ...

    def uneven(self) -> list[str]:
        """Groups of consumers that have read an event behind one that they have not, for people:
        only when they have caught up can one position say what they have read."""
        ...

    def place_events(self, scope: str) -> None:
        """Give every event its position, under the fence of this scope."""
        ...

    def counters(self) -> dict[str, int]:
        """The last number that was given, by table: those of deleted rows are not given again."""
        ...

    def raise_counters(self, counters: dict[str, int]) -> None: ...


@runtime_checkable
class Copies(Protocol):
    """A store that can be moved to another."""

    def copy_side(self) -> CopySide:
        """A connection of its own; the caller closes it. The tables must exist."""
        ...

    def check_target(self) -> None:
        """`StoreError` if the tables of a target cannot be created here. Changes nothing."""
        ...

    async def copy_mark(self) -> CopyMark | None:
        """The mark that users of an open store should know of, if there is one."""
        ...
