"""What a Celery application says about Tenure, in its own configuration.

tenure_url = "postgresql://db.example/shop"     the store, as for `Scheduler`
tenure_policies = {"*": {"catch_up": "all"}, "report": {"priority": 5}}
tenure_options = {"ttl": 5, "namespace": "shop"}     anything else that `Scheduler` takes
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from celery.schedules import crontab

from tenure.errors import ConfigError
from tenure.printable import brief, nearest
from tenure.scheduler.scheduler import Scheduler
from tenure.settings import Settings

ALL = "*"
APP = "celery"
"""The app that the schedules of beats belong to, so that those of other programs are safe."""
REAP_EVERY = 0.5
"""How often the leader looks for messages that a beat took and did not send because it died. To
send takes milliseconds, so there is mostly nothing to look at, and a beat that was started a moment
ago is not yet among those whose death wakes the leader."""
_SETTINGS = ("ttl", "concurrency", "queues", "leads")
"""The arguments of `Scheduler` that are settings, too."""


def make_scheduler(app: Any) -> Scheduler:
    """The scheduler of this application; not started."""
    options = _mapping(app, "tenure_options", 'such as {"ttl": 5, "namespace": "shop"}')
    options = {"app": APP, **options}
    if options.get("settings") is None:
        own = {name: options.pop(name, None) for name in _SETTINGS}
        given = {name: value for name, value in own.items() if value is not None}
        options["settings"] = Settings(reap_every=REAP_EVERY, **given)
    return Scheduler(app.conf.get("tenure_url"), **options)


def check_policies(app: Any, entries: Collection[str]) -> None:
    """Refuse policies of entries that do not exist: they would never be in force."""
    for name in _policies(app):
        if name != ALL and name not in entries:
            raise ConfigError(
                f"tenure_policies names {brief(name)}, which beat_schedule does not have."
                f"{nearest(str(name), entries)} Its keys are names of entries, or {ALL!r} for all."
            )


def policy_of(app: Any, name: str, schedule: object) -> dict[str, Any]:
    """The policies of one entry. To send is quick and excludes nothing: unless told otherwise, a
    message that waits for its broker keeps none of the next ones back."""
    policy: dict[str, Any] = {"overlap": "allow"}
    deadline = app.conf.beat_cron_starting_deadline
    if deadline is not None and isinstance(schedule, crontab):
        policy |= {"catch_up": "none", "catch_up_grace": deadline}
    given = _policies(app)
    return {**policy, **given.get(ALL, {}), **given.get(name, {})}


def _policies(app: Any) -> Mapping[str, Mapping[str, Any]]:
    advice = 'such as {"*": {"catch_up": "all"}, "report": {"priority": 5}}'
    policies = _mapping(app, "tenure_policies", advice)
    for name, policy in policies.items():
        if not isinstance(policy, Mapping):
            raise ConfigError(
                f"tenure_policies[{name!r}]={brief(policy)} is not a mapping of policies to values,"
                f" {advice}."
            )
    return policies


def _mapping(app: Any, setting: str, advice: str) -> Mapping[str, Any]:
    given = app.conf.get(setting)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{setting}={brief(given)} is not a mapping, {advice}.")
    return given
