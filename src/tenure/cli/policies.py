"""The options with which commands take what belongs to a schedule beside its trigger."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from tenure.model import CatchUp, OnCrash, Overlap

_NAMES = (
    "catch_up",
    "catch_up_limit",
    "catch_up_grace",
    "overlap",
    "lock",
    "priority",
    "timeout",
    "retries",
    "on_crash",
)


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


def of_policy(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the policies' options, as one argument `policy`: what was given of them."""

    @click.option("--catch-up", type=_choice(CatchUp), help="Which late ones are fired.")
    @click.option("--catch-up-limit", type=int, metavar="N", help="Of --catch-up all: at most N.")
    @click.option(
        "--catch-up-grace", type=float, metavar="SECONDS", help="Of --catch-up none: how late."
    )
    @click.option("--overlap", type=_choice(Overlap), help="While an earlier run is unfinished.")
    @click.option(
        "--lock", metavar="KEY", help="Runs of one key exclude each other: 'user:{user}'."
    )
    @click.option("--priority", type=int, help="Higher is executed first.")
    @click.option("--timeout", type=float, metavar="SECONDS", help="How long a run may take.")
    @click.option("--retries", type=int, metavar="N", help="How often a failed run is tried again.")
    @click.option("--on-crash", type=_choice(OnCrash), help="What becomes of a dead node's run.")
    @functools.wraps(command)
    def wrapper(*args: Any, **given: Any) -> Any:
        policy = {name: value for name in _NAMES if (value := given.pop(name)) is not None}
        return command(*args, policy=policy, **given)

    return wrapper


def of_target(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --task, --kwargs and --tenant."""
    for option in (
        click.option("--tenant", help="Whose it is: a label to select by."),
        click.option(
            "--kwargs", type=JSONObject(), metavar="JSON", help="The task's keyword arguments."
        ),
        click.option("--task", metavar="NAME", help="The task that is run."),
    ):
        command = option(command)
    return command


def _choice(kind: type[CatchUp | Overlap | OnCrash]) -> click.Choice[str]:
    return click.Choice([str(word) for word in kind])
