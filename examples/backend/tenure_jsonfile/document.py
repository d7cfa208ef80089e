"""The file: one JSON document, changed by one process at a time and replaced as a whole.

Readers need no lock, since they see the old file or the new one. Writers lock a file beside it:
the document itself is another file after each change.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tenure import StoreError, StoreUnavailable

T = TypeVar("T")


@dataclass
class Entry:
    """A lease as it is in the file."""

    term: int
    holder: str | None
    host: str
    pid: int
    boot: str
    """Names the boot clock on which `expires` is."""
    ttl: float
    fenced: bool
    counter: int
    acquired_at: str
    renewed_at: str
    expires: float
    info: dict[str, Any]


@dataclass
class Line:
    """A line of the history."""

    name: str
    term: int
    holder: str
    host: str
    pid: int
    acquired_at: str
    ended_at: str | None = None
    end: str | None = None


@dataclass
class Contents:
    """What a namespace has."""

    leases: dict[str, Entry] = field(default_factory=dict)
    history: list[Line] = field(default_factory=list)
    highest: int = 0
    """The greatest term whose record was dropped."""


class Document:
    """The file, on threads of its own: whoever holds the lock may be slow, or frozen."""

    def __init__(self, path: Path, namespace: str) -> None:
        self.path = path.absolute()
        self._namespace = namespace

    async def read(self, look: Callable[[Contents], T]) -> T:
        return await asyncio.to_thread(lambda: look(self._of(self._load())))

    async def change(self, work: Callable[[Contents], T]) -> T:
        """One atomic change. A caller that is cancelled does not wait for it."""
        return await asyncio.to_thread(self._change, work)

    def _change(self, work: Callable[[Contents], T]) -> T:
        try:
            with self.path.with_name(f"{self.path.name}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                whole = self._load()
                contents = self._of(whole)
                answer = work(contents)
                changed = {
                    "leases": {name: vars(entry) for name, entry in contents.leases.items()},
                    "history": [vars(line) for line in contents.history],
                    "highest": contents.highest,
                }
                if changed != whole.get(self._namespace):
                    self._replace({**whole, self._namespace: changed})
                return answer
        except OSError as error:
            raise self._away(error) from error

    def _load(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._away(error) from error
        except ValueError as error:
            raise StoreError(
                f"{self.path} is not JSON: {error}. Put back a copy, or stop all that use it and"
                " delete it."
            ) from error
        if not isinstance(found, dict):
            raise StoreError(f"{self.path} is not a file of leases. Name another one.")
        return found

    def _of(self, whole: dict[str, Any]) -> Contents:
        try:
            part = whole.get(self._namespace) or {"leases": {}, "history": [], "highest": 0}
            return Contents(
                {name: Entry(**entry) for name, entry in part["leases"].items()},
                [Line(**line) for line in part["history"]],
                part["highest"],
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path} does not have what this version of tenure-jsonfile writes. Update it."
            ) from error

    def _replace(self, whole: dict[str, Any]) -> None:
        """On the disk before anybody acts on it: a term that was given must not come back."""
        draft = self.path.with_name(f"{self.path.name}.new")
        with draft.open("w") as file:
            file.write(json.dumps(whole))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def _away(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"{self.path} cannot be used: {error.strerror or error}.")
