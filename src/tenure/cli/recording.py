"""What the command line changes has its line in the audit, too: by whom, and on which machine."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tenure.backends.base import AuditStore, Backend
from tenure.errors import TenureError
from tenure.model import Change, NewAction, NewRun
from tenure.printable import field
from tenure.schedules.auditing import on_record

if TYPE_CHECKING:  # imported when it is used: commands that only look need no triggers
    from tenure.schedules.editor import Editor

T = TypeVar("T")
CHANGES = {
    "editor.update": "update schedule",
    "editor.rename": "rename schedule",
    "editor.pause": "pause schedule",
    "editor.resume": "resume schedule",
    "editor.remove": "remove schedule",
    "editor.backfill": "backfill",
    "editor.land": "create schedule",
    "editor.request_run": "run now",
    "runs.enqueue": "enqueue",
    "runs.cancel": "cancel run",
    "runs.retry": "retry run",
    "events.seek": "replay group",
    "events.drop": "drop group",
    "relays.replay": "replay parked",
    "relays.drop": "drop parked",
    "relays.revive": "resume relay",
    "relays.forget": "forget relay",
    "leases.evict": "evict lease",
}
"""The calls with which commands change something, in the words of the HTTP API."""
EDITS = frozenset({"editor.update"})
"""Those of which it is told what they change from what to what."""


def recorded(name: str, part: T, store: Backend | None) -> T:
    """A part of an open store whose changes are on record; as it is, if there are only leases."""
    return part if store is None else cast("T", _Recorded(name, part, store.audit))


class _Recorded:
    def __init__(self, name: str, part: object, audit: AuditStore) -> None:
        self._name = name
        self._part = part
        self._audit = audit

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        action = CHANGES.get(f"{self._name}.{name}")
        if action is None:
            return method

        @functools.wraps(method)
        async def changing(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dry_run"):
                return await method(*args, **kwargs)
            detail = await self._detail(name, args, kwargs)
            asked = NewAction(user(), socket.gethostname(), "cli", action, _subject(args), detail)
            async with on_record(lambda question: question(self._audit), asked):
                return await method(*args, **kwargs)

        return changing

    async def _detail(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """What was asked for; of an edit what it would change, as of just before it."""
        if f"{self._name}.{name}" in EDITS:
            with suppress(TenureError):  # which is told when it is tried
                told: str = await cast("Editor", self._part).difference(*args, **kwargs)
                return told
        # Values of options may be secret arguments: their names have to do, but for triggers.
        texts = [text for text in args[1:] if isinstance(text, str)]
        names = [
            f"trigger={field(str(value))}" if name == "trigger" else name
            for name, value in kwargs.items()
            if value not in (None, False)
        ]
        return " ".join(texts + names)


def operator() -> str:
    """Who uses the command line, for reasons that are kept."""
    return f"{user()} on {socket.gethostname()}"


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container with a user that has no name
        return f"uid {os.getuid()}"


def _subject(args: Sequence[Any]) -> str:
    """What the change is about: the first argument names it, or them."""
    about = args[0] if isinstance(args[0], list | tuple) else [args[0]]
    return ",".join(_called(each) for each in about)


def _called(thing: object) -> str:
    if isinstance(thing, Change):
        return thing.spec.name
    return thing.task if isinstance(thing, NewRun) else str(thing)
