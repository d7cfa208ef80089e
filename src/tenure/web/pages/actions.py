"""What people may change from a page, each with a line in the audit and in the log that says who.

Every change goes through the functions that the command line uses, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tenure.errors import Conflict, TenureError
from tenure.model import NewAction, RunState
from tenure.printable import field, one_line
from tenure.schedules.auditing import on_record
from tenure.triggers.text import as_trigger
from tenure.web.auditing import place, who
from tenure.web.pages import policies
from tenure.web.pages.previews import MOST_BACKFILLED, stretch
from tenure.web.reading import Reader, Store
from tenure.web.security.forms import checked_form
from tenure.web.security.guard import Refused
from tenure.web.security.sessions import Sessions
from tenure.words import count

_logger = logging.getLogger("tenure.web.audit")
LONGEST_REASON, LONGEST_SAID = 200, 300


class Action:
    """One change that was asked for: of what, by whom."""

    def __init__(
        self, reader: Reader, request: Request, name: str, given: dict[str, list[str]]
    ) -> None:
        self.reader = reader
        self.access = reader.access
        self.actor = str(request.state.actor)
        self.who, self.place = who(request), place(request)
        self.label = name
        self.names = given.get("name", [])
        self._given = given
        self.difference = ""
        """What an edit changes, from what to what."""

    def one(self, field_name: str) -> str:
        """The only value of this field."""
        found = self._given.get(field_name, [])
        if len(found) != 1:
            raise Refused(HTTPStatus.BAD_REQUEST, f"The form has no {field_name}.")
        return found[0]

    @property
    def all(self) -> dict[str, str]:
        """The first value of each field."""
        return {name: values[0] for name, values in self._given.items() if values}

    def number(self, field_name: str) -> int:
        text = self.one(field_name)
        if not text.isdecimal() or len(text) > 18:
            raise Refused(HTTPStatus.BAD_REQUEST, f"The {field_name} is not a number.")
        return int(text)

    @property
    def reason(self) -> str:
        """What was said, and by whom: it is stored with the change."""
        said = one_line(" ".join(self._given.get("reason", []))).strip()[:LONGEST_REASON]
        by = f"by {self.actor}, dashboard"
        return f"{said} ({by})" if said else by

    def on_record(self, subject: str) -> AbstractAsyncContextManager[None]:
        """Writes a line about a change of this, and completes it."""
        about = {k: v for k, v in self._given.items() if k not in ("key", "proof", *SUBJECTS)}
        said = " ".join(f"{key}={field(','.join(about[key]))}" for key in sorted(about))
        detail = self.difference or said
        asked = NewAction(
            self.who, self.place, "dashboard", WORDS.get(self.label, self.label), subject, detail
        )
        return on_record(
            lambda question: self.reader.ask(lambda store: _awaited(question(store.audit))),
            asked,
            Refused,
        )

    @property
    def subject(self) -> str:
        return next((",".join(self._given[name]) for name in SUBJECTS if name in self._given), "")

    async def each(self, change: Callable[[str], Awaitable[object]], done: str) -> str:
        """The same for many schedules; what is not possible for one is told, and the rest goes
        on."""
        changed, failed = 0, list[str]()
        for name in self.names:
            try:
                async with self.on_record(name):
                    await change(name)
                changed += 1
            except TenureError as error:
                failed.append(f"{name}: {error}")
        if failed and not changed:
            raise Conflict(" ".join(failed[:3]))
        what = self.names[0] if len(self.names) == 1 else count(changed, "schedule")
        more = f" Not possible: {' '.join(failed[:3])}" if failed else ""
        return f"{done} {what}.{more}"


async def pause(action: Action) -> str:
    return await action.each(lambda name: action.access.pause(name, action.reason), "Paused")


async def resume(action: Action) -> str:
    return await action.each(action.access.resume, "Resumed")


async def run_now(action: Action) -> str:
    # The key is of the page: a form that is sent twice makes one run.
    key = f"dashboard-{action.one('key')[:40]}"
    return await action.each(lambda name: action.access.run_now(name, key), "Asked to run:")


async def change(action: Action) -> str:
    """Another trigger. Refused if the schedule was changed since the page was made."""
    name, version = action.one("name"), action.number("version")
    await action.access.update(name, trigger=action.one("trigger"), expected_version=version)
    return f"Changed when {name} fires."


async def change_policies(action: Action) -> str:
    """Other policies, with the same protection. What the form left as it was stays."""
    name, version = action.one("name"), action.number("version")
    schedule = await action.access.get(name)
    if schedule.version != version:
        raise Conflict(f"{name} was changed meanwhile. Load the page again. Nothing was changed.")
    changes = policies.read(schedule.spec, action.all)
    if not changes:
        return f"Nothing was changed about {name}."
    await action.access.update(name, expected_version=version, **changes)
    return f"Changed what holds for {name}: {', '.join(sorted(changes))}."


async def difference(action: Action) -> str:
    """What an edit would change, for its line in the audit."""
    name, changes = action.one("name"), dict[str, Any]()
    if action.label == "change":
        # On a thread: reading it may take half a second.
        changes["trigger"] = await asyncio.to_thread(as_trigger, action.one("trigger"))
    else:
        schedule = await action.access.get(name)
        changes = policies.read(schedule.spec, action.all)
    return await action.reader.ask(
        lambda store: action.reader.editor(store).difference(name, **changes)
    )


async def backfill(action: Action) -> str:
    name = action.one("name")
    start, end = stretch(action.one("start"), action.one("end"))
    fired = await action.access.backfill(name, start, end, limit=MOST_BACKFILLED)
    return f"Fired {count(len(fired), 'occurrence')} of {name} after all."


async def retry(action: Action) -> str:
    run = await action.access.retry(action.number("run"))
    return f"Run {run.id} waits again."


async def cancel(action: Action) -> str:
    run = await action.access.cancel(action.number("run"))
    told = (
        "is cancelled" if run.state is RunState.CANCELLED else "is asked to end; its node is told"
    )
    return f"Run {run.id} {told}."


async def evict(action: Action) -> str:
    name, term = action.one("name"), action.one("term")

    async def work(store: Store) -> bool:
        current = await store.leases.read(name)
        if current is None or current.holder is None or str(current.term) != term:
            return False  # what was shown and agreed to is no longer there
        seen = None if current.unreadable else current.term
        return await store.leases.evict(name, f"evicted {action.reason}", seen) is not None

    if not await action.reader.ask(work):
        raise Conflict(f"{name} changed hands meanwhile. Nothing was changed.")
    return f"Evicted the holder of {name}; term {term} is over."


async def replay(action: Action) -> str:
    relay, position = action.one("relay"), action.number("position")

    async def work(store: Store) -> int:
        return await store.relays.replay(relay, [position])

    if not await action.reader.ask(work):
        raise Conflict("That event is no longer parked. Nothing was changed.")
    return f"The event is sent again to {relay}."


ACTIONS: dict[str, Callable[[Action], Awaitable[str]]] = {
    "pause": pause,
    "resume": resume,
    "run-now": run_now,
    "change": change,
    "policies": change_policies,
    "backfill": backfill,
    "retry": retry,
    "cancel": cancel,
    "evict": evict,
    "replay": replay,
}


EDITS = frozenset({"change", "policies"})
OF_MANY = frozenset({"pause", "resume", "run-now"})
"""Their lines are about each schedule."""
SUBJECTS = ("name", "run", "relay")
"""The fields that say what a change is about."""
WORDS = {
    "pause": "pause schedule",
    "resume": "resume schedule",
    "run-now": "run now",
    "change": "update schedule",
    "policies": "update schedule",
    "retry": "retry run",
    "cancel": "cancel run",
    "evict": "evict lease",
    "replay": "replay parked",
}
"""The same words as the API's."""


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def routes(reader: Reader, sessions: Sessions) -> list[BaseRoute]:
    async def act(request: Request) -> Response:
        name = request.path_params["action"]
        if name not in ACTIONS:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such action.")
        given = await checked_form(request, sessions)
        then = given.pop("then", ["/"])[0]
        action = Action(reader, request, name, given)
        about = " ".join(f"{key}={field(','.join(given[key]))}" for key in sorted(given))
        by = field(action.actor)
        try:
            if name in OF_MANY:
                said = await ACTIONS[name](action)
            else:
                if name in EDITS:
                    with suppress(TenureError):  # which is told when it is tried
                        action.difference = await difference(action)
                async with action.on_record(action.subject):
                    said = await ACTIONS[name](action)
        except TenureError as error:
            _logger.warning(
                "dashboard.refused action=%s by=%s %s error=%s", name, by, about, field(str(error))
            )
            raise
        _logger.info("dashboard.acted action=%s by=%s %s", name, by, about)
        inside = then if then.startswith("/") and not then.startswith(("//", "/\\")) else "/"
        said = said[:LONGEST_SAID]
        told = urlencode({"said": said, "mark": sessions.mark(said, request.state.bound)})
        link = f"{inside}{'&' if '?' in inside else '?'}{told}"
        root = str(request.scope.get("root_path", ""))
        return RedirectResponse(root + link, HTTPStatus.SEE_OTHER)

    return [Route("/do/{action}", act, methods=["POST"])]
