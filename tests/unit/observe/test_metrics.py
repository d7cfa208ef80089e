"""What is counted, and who tells it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tenure import ConfigError, Event, Scheduler, every
from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.errors import Fenced, StoreError, StoreUnavailable
from tenure.facts import (
    EventParked,
    EventsDropped,
    EventsRelayed,
    HistoryBehind,
    LeaseLoss,
    LeftOffice,
    RunsRecovered,
    ScheduleSetAside,
    ServiceFailed,
)
from tenure.model import Fence
from tenure.observe import asgi, collector
from tenure.observe.calls import Call, _Ear, listening
from tenure.observe.catalogue import METRICS, OF_STORE
from tenure.observe.metrics import _oldest, _sums, metrics_of
from tenure.observe.tally import MOST_SERIES, Tally
from tenure.process.clock import SystemClock
from tests.unit.observe.observing import ANYWHERE, Outage, numbers, until


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://", ttl=0.5, health=ANYWHERE)
    yield made
    made.stop()


def test_runs_and_occurrences_are_counted(scheduler: Scheduler) -> None:
    @scheduler.task(every(seconds=0.1))
    def sweep() -> None: ...

    @scheduler.task(every(seconds=0.1), retries=1)
    def broken() -> None:
        raise ValueError("broken")

    assert 'tenure_runs_total{outcome="failed",task="sweep"}' not in _exposed(scheduler)
    scheduler.start()
    found = numbers(scheduler)
    assert found['tenure_runs_total{outcome="failed",task="sweep"}'] == 0  # from the beginning
    assert found['tenure_store_errors_total{error="timeout",part="leases"}'] == 0
    until(
        lambda: (
            _of(scheduler, "runs_total", outcome="succeeded", task="sweep") > 2
            and _of(scheduler, "runs_total", outcome="retried", task="broken") > 0
        ),
        "runs",
    )
    found = numbers(scheduler)
    assert found["tenure_leader"] == 1
    assert found["tenure_took_office_total"] == 1
    assert found['tenure_occurrences_total{outcome="fired",reason=""}'] >= 4
    assert found["tenure_run_lateness_seconds_count"] >= 4
    assert found["tenure_run_duration_seconds_count"] >= 4
    assert found['tenure_run_duration_seconds_bucket{le="+Inf"}'] >= 4
    assert found['tenure_last_success_timestamp_seconds{task="sweep"}'] > 1.7e9
    assert 'tenure_last_success_timestamp_seconds{task="broken"}' not in found
    assert found['tenure_store_call_duration_seconds_count{part="schedules"}'] > 2
    assert not [name for name in found if "schedule=" in name]


def test_what_a_node_executes_now(scheduler: Scheduler) -> None:
    go_on = threading.Event()

    @scheduler.task
    def wait() -> None:
        go_on.wait(60)

    scheduler.start()
    assert "tenure_oldest_running_timestamp_seconds" not in numbers(scheduler)
    scheduler.enqueue(wait)
    until(lambda: numbers(scheduler)["tenure_running_runs"] == 1, "the run")
    found = numbers(scheduler)
    now = found["tenure_loop_timestamp_seconds"]
    assert abs(now - found["tenure_oldest_running_timestamp_seconds"]) < 60
    go_on.set()
    until(lambda: numbers(scheduler)["tenure_running_runs"] == 0, "its end")


def test_only_the_leader_tells_of_the_store_and_only_while_it_leads(scheduler: Scheduler) -> None:
    names = {metric.name for metric in OF_STORE}
    outage = Outage(scheduler)
    scheduler.start()
    scheduler.emit(Event("ledger", "MonthEnded", {}))
    until(lambda: "tenure_term" in numbers(scheduler), "the survey")
    found = numbers(scheduler)
    assert found["tenure_term"] == 1
    assert found["tenure_waiting_runs"] == 0
    assert found["tenure_retention_lag_seconds"] == 0
    assert found["tenure_nodes"] <= 1
    outage.away = True
    until(lambda: numbers(scheduler)["tenure_leader"] == 0, "the end of its trust")
    assert not {name.partition("{")[0] for name in numbers(scheduler)} & names
    assert 0 in (
        _of(scheduler, "store_up", part="leases"),
        _of(scheduler, "store_up", part="store"),
    )
    outage.away = False
    until(lambda: "tenure_term" in numbers(scheduler), "the survey of the next look")


def test_facts_that_are_rare_are_counted_too(scheduler: Scheduler) -> None:
    scheduler.start()
    until(lambda: numbers(scheduler)["tenure_leader"] == 1, "a leader")
    facts = [
        LeaseLoss("import", 3, "me"),
        LeftOffice("tenure/leader", 3, "me", "made way for newer code"),
        LeftOffice("mine", 3, "me", "lost"),  # a user's own election
        ScheduleSetAside(7, "no such zone"),
        RunsRecovered("dead", rerun=2, lost=1),
        EventsRelayed("kafka", 5, 0.1),
        EventParked("kafka", 7, "ledger", None, 10, "refused", holds=True),
        EventsDropped(3, 60.0),
        ServiceFailed("ticker", "a bug"),
        HistoryBehind(60.0),
    ]
    told = scheduler._runtime._stages._facts
    for fact in facts:
        scheduler._runtime.thread.loop.call_soon_threadsafe(told.tell, fact)
    until(lambda: _of(scheduler, "service_failures_total", service="ticker"), "the facts")
    found = numbers(scheduler)
    assert found['tenure_lease_losses_total{reason="lost"}'] == 1
    assert found['tenure_left_office_total{reason="other"}'] == 1
    assert found['tenure_left_office_total{reason="lost"}'] == 0
    assert found['tenure_schedules_refused_total{outcome="set_aside"}'] == 1
    assert found['tenure_runs_recovered_total{outcome="rerun"}'] == 2
    assert found['tenure_relay_events_total{relay="kafka"}'] == 5
    assert found['tenure_relay_parked_total{relay="kafka"}'] == 1
    assert found["tenure_events_dropped_total"] == 3


def test_counters_go_on_when_a_scheduler_starts_again(scheduler: Scheduler) -> None:
    scheduler.start()
    until(lambda: numbers(scheduler)["tenure_took_office_total"] == 1, "a leader")
    scheduler.stop()
    scheduler.start()
    until(lambda: numbers(scheduler)["tenure_took_office_total"] == 2, "a leader")


def test_a_scheduler_that_was_stopped_raises_no_alarm() -> None:
    """It may have been stopped on purpose, in a process that goes on and is scraped."""
    scheduler = Scheduler("memory://", ttl=0.5)
    registry = CollectorRegistry()
    registry.register(collector(scheduler))
    outage = Outage(scheduler)
    ages = ("tenure_loop_timestamp_seconds", "tenure_heartbeat_timestamp_seconds")

    def told(name: str) -> bool:
        return registry.get_sample_value(name) is not None

    scheduler.start()
    until(lambda: all(map(told, ages)), "its heartbeat")
    until(lambda: told("tenure_clock_skew_seconds"), "its clock to be compared")
    part = {"part": "leases"}
    outage.away = True
    until(lambda: registry.get_sample_value("tenure_store_up", part) == 0, "the outage")
    scheduler.stop()
    assert not [name for name in (*ages, "tenure_clock_skew_seconds") if told(name)]
    assert registry.get_sample_value("tenure_store_up", part) == 1
    assert registry.get_sample_value("tenure_clock_held") == 0
    scheduler.start()
    until(lambda: all(map(told, ages)), "its heartbeat")
    scheduler.stop()


def test_a_registry_of_ones_own_and_schedules_if_asked_for() -> None:
    scheduler = Scheduler("memory://")
    registry = CollectorRegistry()
    registry.register(collector(scheduler, by_schedule=True))
    app = asgi(scheduler)
    assert app is not None

    @scheduler.task(every(seconds=0.1), name="often")
    def sweep() -> None: ...

    with scheduler:
        wanted = 'tenure_schedule_runs_total{outcome="succeeded",schedule="often"}'
        until(lambda: wanted in generate_latest(registry).decode(), "the schedule")
        assert "tenure_schedule_last_success_timestamp" in generate_latest(registry).decode()


def test_a_registry_takes_one_scheduler() -> None:
    registry = CollectorRegistry()
    registry.register(collector(Scheduler("memory://")))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(collector(Scheduler("memory://")))


def test_schedules_are_asked_for_at_first() -> None:
    scheduler = Scheduler("memory://", health=ANYWHERE)
    with pytest.raises(ConfigError, match="by_schedule= comes with the first use"):
        collector(scheduler, by_schedule=True)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("tenure.observe.metrics.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'tenure\[metrics\]'"):
        collector(Scheduler("memory://"))


def test_labels_do_not_grow_without_end() -> None:
    metric = next(each for each in METRICS if each.name == "tenure_schedule_runs_total")
    tally = Tally([metric])
    for number in range(2 * MOST_SERIES):
        tally.count(metric, "succeeded", f"schedule {number}")
    found = tally.numbers(metric)
    assert len(found) == MOST_SERIES + 1
    assert found["succeeded", "(other)"] == MOST_SERIES
    assert sum(found.values()) == 2 * MOST_SERIES


def test_labels_of_the_store_do_not_grow_without_end() -> None:
    count = MOST_SERIES + 3
    names = [("ledger", f"group {number}") for number in range(count)]
    sums = _sums((labels, 2) for labels in names)
    assert len(sums) == MOST_SERIES + 1
    assert sums["(other)", "(other)"] == 2 * 3
    at = [datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=number) for number in range(count)]
    oldest = _oldest(zip(names, at, strict=True))
    assert len(oldest) == MOST_SERIES + 1
    assert oldest["(other)", "(other)"] == at[-1].timestamp()
    assert _oldest([(("kafka",), None)]) == {}


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert metric.name.startswith("tenure_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert (metric.kind == "histogram") == bool(metric.buckets)
        assert not {"schedule", "node", "run"} & set(metric.labels) or "asked for" in metric.help


async def test_calls_are_heard_however_they_end() -> None:
    heard: list[Call] = []
    ticks = iter(range(100))
    stores = Stores.of(MemoryBackend(SystemClock()))
    listened = listening(stores, heard.append, lambda: float(next(ticks)))
    await listened.leases.all("")
    now = await listened.now()
    with pytest.raises(Fenced):
        await listened.schedules.fire(Fence("tenure/leader", 7, "nobody"), ())
    assert [call.result for call in heard[:2]] == [[], now]
    assert [call._replace(result=None) for call in heard] == [
        Call("leases", "all", 1.0, None, answered=True),
        Call("clock", "now", 1.0, None, answered=True),
        Call("schedules", "fire", 1.0, None, answered=True),
    ]

    async def fail(error: BaseException) -> None:
        raise error

    for error, told in [
        (StoreUnavailable("away"), ("unavailable", False)),
        (TimeoutError(), ("timeout", False)),
        (asyncio.CancelledError(), ("timeout", False)),  # after a second, by this clock
        (StoreError("no"), ("refused", True)),
        (ValueError("a defect"), None),
    ]:
        heard.clear()
        with pytest.raises(type(error)):
            await _Ear(heard.append, lambda: float(next(ticks))).around("runs", "find", fail)(error)
        assert [(call.error, call.answered) for call in heard] == ([told] if told else [])


def _exposed(scheduler: Scheduler) -> str:
    registry = CollectorRegistry()
    registry.register(metrics_of(scheduler._runtime.observers))
    return generate_latest(registry).decode()


def _of(scheduler: Scheduler, name: str, **labels: str) -> float:
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return numbers(scheduler).get(f"tenure_{name}{{{inside}}}", 0.0)
