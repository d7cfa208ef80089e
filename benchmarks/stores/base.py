"""What the benchmarks must know about a store; all else goes through Tenure's own protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from tenure import Scheduler
from tenure.backends.base import Backend, LeaseBackend
from tenure.backends.registry import parse, parse_leases
from tenure.process.clock import SystemClock

OWN_COLUMNS = ("name", "trigger", "lock", "next_nominal", "next_due")
"""What a copy of a schedule does not share with the original."""


@dataclass(frozen=True)
class Place:
    """An empty store: where its schedules are, and its leases if they are elsewhere."""

    url: str
    leases: str | None = None
    port: int | None = None
    """Of the server that keeps the leases: a line to it can be cut."""

    @property
    def locks(self) -> str:
        """Where a lock is kept."""
        return self.leases or self.url

    def through(self, port: int) -> Place:
        """The same by another way, which begins at this port."""
        here, there = f":{self.port}/", f":{port}/"
        url = self.url if self.leases else self.url.replace(here, there)
        return Place(url, self.leases and self.leases.replace(here, there), port)


@dataclass(frozen=True)
class Usage:
    """What a server has done since it began, as far as it tells; some of it seconds later."""

    seconds: float
    """Of the processors, by all its processes."""
    transactions: int
    logged: int
    """Bytes of its log, since ever."""
    connections: int
    """Now, by others than the observer."""
    updates: Mapping[str, tuple[int, int]]
    """Of each table: updates, and those that touched no index (HOT)."""


class Store:
    """One kind of store, on this machine. Its server, if it needs one, lives in the `with`."""

    name: str
    yardstick: str
    """What a lock is compared with."""
    lock_ttl = 30.0
    hint = "its lock on the file is free"
    """How the death of a leader on another machine is noticed before its ttl."""
    apart = False
    """Nodes believe to be on machines of their own: nobody sees the others' processes."""
    idle_standby: float | None = None
    """How many queries a second the only standby may make: on PostgreSQL it is a deputy."""
    takeover, takeover_inside = 1.0, 0.0
    """Seconds from kill -9 to the first firing, for 99 of 100; and of a leader that was inside a
    firing transaction, if the store tells (0: it does not)."""
    snapshots = False
    """A transaction that stays open keeps what others delete and change in everybody's way."""
    skips: Mapping[str, str] = {}
    """The benchmarks that say nothing about this store, and why."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def facts(self) -> dict[str, str]:
        """What a reader must know of it to compare figures."""
        raise NotImplementedError

    def wear_in(self) -> None:
        """Make its server like one that has been in use, before real figures are measured."""

    def place(self) -> AbstractContextManager[Place]:
        """An empty store, which is gone afterwards."""
        raise NotImplementedError

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of an empty store for schedules, which is gone afterwards."""
        with self.place() as place:
            yield place.url

    def bare_pairs(self, place: Place) -> AbstractContextManager[Callable[[], None]]:
        """The least that a lock can be on this store: taken if it is free, and freed; each durable
        on its own, if the store is."""
        raise NotImplementedError

    def bare_firing(self, url: str, batch: int, *, events: bool = False) -> int:
        """The least that a firing can be: the same rows, written by set-based statements alone,
        `batch` in a transaction; with `events`, those of schedules that emit. Returns how many
        schedules were moved on."""
        raise NotImplementedError

    def multiply(self, url: str, plans: Sequence[tuple[str, datetime]], copies: int) -> None:
        """The least that adding can be: copies of the only schedule there is, by one statement; so
        many for each of these triggers with its next time. The original is gone afterwards."""
        raise NotImplementedError

    def execute(self, url: str, statements: str) -> None:
        """Statements in this store's own words, in one transaction."""
        raise NotImplementedError

    def ago(self, seconds: str, whole: int = 0) -> str:
        """The words for the time so many seconds ago, as its tables have it; with `whole`, at the
        begin of such a stretch of seconds."""
        raise NotImplementedError

    def tidy(self, url: str) -> None:
        """What the store does by itself some time after a lot was written."""

    def roomy(self, connections: int) -> Store:
        """Another one, whose server lets so many connect."""
        raise NotImplementedError

    def sizes(self, url: str) -> dict[str, int]:
        """How many bytes it takes on disk, by what they are: tables with indexes, and the log."""
        raise NotImplementedError

    def usage(self, url: str) -> Usage | None:
        """What its server has done for this place until now; None: there is no server."""
        return None

    def snapshot(self, url: str) -> AbstractContextManager[None]:
        """Somebody else reads there, in a transaction that does not end meanwhile."""
        raise NotImplementedError

    def queries(self, scheduler: Scheduler) -> int:
        """How many round trips this scheduler has made to its store."""
        raise NotImplementedError

    def inside(self, place: Place) -> AbstractContextManager[Callable[[int], bool]]:
        """Asks whether the leader of a term is inside a transaction of its office right now."""
        raise NotImplementedError

    def no_write(self, place: Place) -> AbstractContextManager[None]:
        """Meanwhile no node is in the middle of a write that stops all others."""
        return nullcontext()


def backend(url: str) -> Backend:
    """Tenure's backend for this URL, not open yet."""
    return parse(url, "default", SystemClock())()


def lease_backend(place: Place) -> LeaseBackend:
    """The same for its leases."""
    return parse_leases(place.locks, "default", SystemClock())()


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    found = {fields[1]: fields[2] for fields in map(str.split, mounts)}
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if str(place) in found:
            return found[str(place)]
    return "unknown"
