"""Health, metrics and traces: what machines look at.

All of them are observers: they listen to facts and to calls to the store, and decide nothing. A
scheduler that nobody observes has none of this in between, and imports none of it.

    watch     what a process knows about its own node     health     alive, ready, leads
    tally     numbers; fact_counter and run_counter       survey     the leader's look at the store
              count facts into it                         calls      listening to a store's calls
    metrics   both, for Prometheus (catalogue: the list)  exposition the page of them
    pages     what is answered: by the server, or asgi    traces     spans, for OpenTelemetry

May be imported by users, `cli` and `contrib`; and by `scheduler`, when it is given a `health=`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.errors import ConfigError
from tenure.observe.health import Answer
from tenure.scheduler.base import BaseScheduler
from tenure.scheduler.observers import Observers

if TYPE_CHECKING:
    from tenure.observe.asgi import PagesApp

__all__ = ["Answer", "alive", "asgi", "collector", "leads", "ready", "trace"]


def alive(scheduler: BaseScheduler) -> Answer:
    """Do the loops of this process's node advance? What /healthz answers."""
    from tenure.observe import health
    from tenure.observe.watch import watch

    return health.alive(watch(_observers(scheduler)))


def ready(scheduler: BaseScheduler) -> Answer:
    """Has it joined, does its store answer, has it a slot? What /readyz answers."""
    from tenure.observe import health
    from tenure.observe.watch import watch

    return health.ready(watch(_observers(scheduler)))


def leads(scheduler: BaseScheduler) -> Answer:
    """Does it lead, at this instant? What /leader answers."""
    from tenure.observe import health
    from tenure.observe.watch import watch

    return health.leads(watch(_observers(scheduler)))


def asgi(scheduler: BaseScheduler) -> PagesApp:
    """The same pages as `Scheduler(health=…)` serves, to be mounted: `app.mount("/tenure", …)`.

    They are answered by your server, on your loop: if that is blocked, so are they.
    """
    from tenure.observe.asgi import PagesApp
    from tenure.observe.exposition import exposition
    from tenure.observe.pages import Pages
    from tenure.observe.watch import watch

    observers = _observers(scheduler)
    return PagesApp(Pages(watch(observers), exposition(observers)))


def collector(scheduler: BaseScheduler, *, by_schedule: bool = False) -> Any:
    """For a registry of your own: `prometheus_client.REGISTRY.register(collector(scheduler))`.

    `by_schedule` adds two metrics with a label for each schedule. `ConfigError` if the package
    prometheus-client is missing.
    """
    from tenure.observe.metrics import metrics_of

    return metrics_of(_observers(scheduler), by_schedule=by_schedule)


def trace(scheduler: BaseScheduler) -> None:
    """Make OpenTelemetry spans of its ticks, runs and relays. Call it where the scheduler is made.

    The spans go to the tracer provider that your program has set. `ConfigError` if the package
    opentelemetry-api is missing.
    """
    from tenure.observe.traces import trace

    trace(scheduler)


def _observers(scheduler: BaseScheduler) -> Observers:
    observers = scheduler._runtime.observers
    if scheduler.running and not observers.all:
        raise ConfigError(
            "this scheduler runs, and nobody observes it: call this once before start(), or give"
            " Scheduler() a health=."
        )
    return observers
