"""The options with which commands take what belongs to a schedule beside its trigger."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from tenure.errors import ConfigError, InvalidEvent
from tenure.model import CatchUp, Event, OnCrash, Overlap

_OF_RUN = ("lock", "priority", "timeout", "retries", "on_crash")
_NAMES = ("catch_up", "catch_up_limit", "catch_up_grace", "overlap")


class JSONObject(click.ParamType[Any]):
    """A JSON object, such as {"customer": "acme"}."""

    name = "json"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, Any]:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError) as error:
            self.fail(f"{value!r} is not JSON: {error}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail(f'{value!r} is not a JSON object, such as {{"customer": 7}}', param, ctx)
        return parsed


class EventObject(click.ParamType[Any]):
    """An event as a JSON object, such as {"topic": "ledger", "type": "MonthEnded"}."""

    name = "json"

    def convert(self, value: Any, param: Any, ctx: Any) -> Event:
        try:
            return event_of(JSONObject().convert(value, param, ctx))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def event_of(given: dict[str, Any]) -> Event:
    """The event that a JSON object describes; it is checked when it is used."""
    if unknown := sorted(given.keys() - Event.__dataclass_fields__.keys()):
        known = ", ".join(Event.__dataclass_fields__)
        raise InvalidEvent(f"an event has no {unknown[0]!r}; it has {known}.")
    for name in ("topic", "type"):
        if name not in given:
            raise InvalidEvent(f"the event has no {name!r}.")
    return Event(**given)


def of_policy(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the policies' options, as one argument `policy`: what was given of them."""

    @of_run_policy
    @click.option("--catch-up", type=_choice(CatchUp), help="Which late occurrences fire.")
    @click.option("--catch-up-limit", type=int, metavar="N", help="For --catch-up all: at most N.")
    @click.option(
        "--catch-up-grace", type=float, metavar="SECONDS", help="For --catch-up none: how late."
    )
    @click.option("--overlap", type=_choice(Overlap), help="If an earlier run is unfinished.")
    @functools.wraps(command)
    def wrapper(*args: Any, policy: dict[str, Any], **given: Any) -> Any:
        more = {name: value for name in _NAMES if (value := given.pop(name)) is not None}
        return command(*args, policy=more | policy, **given)

    return wrapper


def of_run_policy(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of what concerns a run alone."""

    @click.option(
        "--lock", metavar="KEY", help="Runs with the same key exclude each other: 'user:{user}'."
    )
    @click.option("--priority", type=int, help="Higher is executed first.")
    @click.option("--timeout", type=float, metavar="SECONDS", help="How long a run may take.")
    @click.option("--retries", type=int, metavar="N", help="How often a failed run is tried again.")
    @click.option("--on-crash", type=_choice(OnCrash), help="What to do with a dead node's run.")
    @functools.wraps(command)
    def wrapper(*args: Any, **given: Any) -> Any:
        policy = {name: value for name in _OF_RUN if (value := given.pop(name)) is not None}
        return command(*args, policy=policy, **given)

    return wrapper


def of_target(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --task, --kwargs, --emit and --tenant."""
    emit = click.option(
        "--emit",
        type=EventObject(),
        metavar="JSON",
        help="The event to emit, instead of a task: topic, type, data, key, headers.",
    )
    task = click.option("--task", metavar="NAME", help="The task to run.")
    return task(emit(of_arguments(command)))


def of_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --kwargs and --tenant."""
    for option in (
        click.option("--tenant", help="A label to filter by; tenants take turns."),
        click.option(
            "--kwargs", type=JSONObject(), metavar="JSON", help="The task's keyword arguments."
        ),
    ):
        command = option(command)
    return command


def _choice(kind: type[CatchUp | Overlap | OnCrash]) -> click.Choice[str]:
    return click.Choice([str(word) for word in kind])
