"""The backend: the leases, the wake-ups, and what opens and closes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tenure import SchemaMismatch, StoreError
from tenure.backends.base import lease_topic
from tenure.process.clock import Clock, SystemClock
from tenure_jsonfile.document import Contents, Document
from tenure_jsonfile.leases import JsonLeases

LOOK_EVERY = 0.05
"""Seconds between two looks at the file, while somebody waits for a lease."""


class JsonFileBackend:
    """Leases in a file, for the processes of one machine."""

    def __init__(
        self,
        path: Path,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        boot: str | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._document = Document(path, namespace)
        boot = _this_boot() if boot is None else boot
        self.leases = JsonLeases(self._document, self._clock, boot)
        self.wakeups = FileWakeups(self._document, self._clock)
        self._opened = False

    @property
    def location(self) -> str:
        return f"jsonfile:///{self._document.path}"

    async def now(self) -> datetime:
        return self._clock.now()

    async def open(self, *, migrate: bool = True) -> None:
        if self._opened:
            raise StoreError(f"{self.location} is opened only once by this object: make another.")
        self._opened = True
        if migrate:
            await self._document.change(lambda contents: None)
        elif not self._document.path.exists():
            raise SchemaMismatch(f"{self.location} does not exist yet: its first user makes it.")

    async def close(self) -> None:
        await self.wakeups.close()


class FileWakeups:
    """Looks whether the file was replaced, and wakes those whose lease is not as it was."""

    def __init__(self, document: Document, clock: Clock) -> None:
        self._document = document
        self._clock = clock
        self._callbacks: list[tuple[str, Callable[[], None]]] = []
        self._looking: asyncio.Task[None] | None = None
        self._stamp: tuple[int, ...] = ()
        self._states: dict[str, tuple[int, str | None]] = {}

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        entry = (topic, callback)
        self._callbacks.append(entry)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

        def stop() -> None:
            if entry in self._callbacks:
                self._callbacks.remove(entry)

        return stop

    async def close(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look(self) -> None:
        while self._callbacks:
            await self._clock.sleep(LOOK_EVERY)
            changed = await self._changed()
            for topic, callback in list(self._callbacks):
                if topic in changed:
                    callback()
        self._looking = None

    async def _changed(self) -> set[str]:
        """The topics of leases that are not as they were at the last look."""
        try:
            found = self._document.path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return set()
            states = await self._document.read(_states)
        except (OSError, StoreError):
            return set()  # whoever asks for the lease is told; this looks again
        before, self._stamp, self._states = self._states, stamp, states
        return {topic for topic, state in states.items() if before.get(topic) != state}


def _states(contents: Contents) -> dict[str, tuple[int, str | None]]:
    return {
        lease_topic(name): (entry.term, entry.holder) for name, entry in contents.leases.items()
    }


def _this_boot() -> str:
    """Names the boot clock of this machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
