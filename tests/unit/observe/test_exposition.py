"""The page of metrics: filled in, it is what prometheus-client would have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.exposition import choose_encoder

from tenure import Scheduler
from tenure.observe import catalogue as c
from tenure.observe.exposition import Form, _Collected, exposition
from tenure.observe.metrics import Series, metrics_of
from tenure.observe.tally import Labels

TEXT = "text/plain"
OPEN = "application/openmetrics-text;version=1.0.0"
FORMATS = pytest.mark.parametrize("accept", [TEXT, OPEN])
ODD = [
    'say "hi"',
    "a\\b",
    "a\nb 3.0",
    "# HELP",
    "a b c",
    "",
    "\x0b\x0c\x1c\x85\u2028",
    "grüße",
]


def _series(numbers: Sequence[float], names: Sequence[str] = ODD) -> list[Series]:
    buckets = [float(number) for number, _ in enumerate([*c.CALLS, "+Inf"])]
    parts: list[Labels] = [("runs",), ("leases",)]
    return [
        (c.INFO, ("1.0", "books", "shop"), [1.0]),
        *((c.RUNS, ("failed", name), [numbers[0]]) for name in names),
        (c.SKEW, (), [numbers[1]]),
        *((c.CALL_DURATION, part, [*buckets, numbers[2]]) for part in parts),
        (c.RUN_LATENESS, (), [float(number) for number in range(16)]),
        *((c.UNREAD, (name, name), [numbers[0]]) for name in names),
        (c.SURVEYED, (), [numbers[2]]),
    ]


@FORMATS
@pytest.mark.parametrize(
    "numbers",
    [(0.0, 0.0, 0.0), (3.0, -0.25, 1.7e9 + 0.123456), (1e6, 1e-7, 12_345_678.5), (1e22, 7.0, 0.1)],
)
def test_filled_form_is_what_the_library_writes(accept: str, numbers: Sequence[float]) -> None:
    encode, _ = choose_encoder(accept)
    form = Form(_series((1.0, 2.0, 3.0)), encode)
    series = _series(numbers)
    assert form.shape == [(metric, labels) for metric, labels, _ in series]
    written = encode(_Collected(series)).decode()
    assert form.filled(series) == written.removesuffix("# EOF\n")


@FORMATS
def test_page_of_a_node_is_what_the_library_writes(
    accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler("memory://")
    observers = scheduler._runtime.observers
    expose, metrics = exposition(observers), metrics_of(observers)
    assert expose is not None
    monkeypatch.setattr("tenure.observe.exposition.LASTS", -1.0)
    encode, _ = choose_encoder(accept)

    def check() -> None:
        _, page = expose(accept)
        written = encode(_Collected(metrics.series())).decode().removesuffix("# EOF\n")
        assert page.decode().startswith(written)
        assert page.decode().count("# EOF") == (accept == OPEN)
        assert b"process_cpu_seconds_total" in page

    check()
    with scheduler:  # other series
        pass
    check()
    metrics._tally.count(c.RUNS, "failed", "sweep")  # another one
    check()
    metrics._tally.count(c.RUNS, "failed", "sweep", by=41)  # another number
    check()


def test_form_is_written_once_for_the_same_series(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler("memory://")
    observers = scheduler._runtime.observers
    expose = exposition(observers)
    assert expose is not None
    monkeypatch.setattr("tenure.observe.exposition.LASTS", -1.0)
    made: list[Any] = []

    class Counted(Form):
        def __init__(self, *given: Any) -> None:
            made.append(given)
            super().__init__(*given)

    monkeypatch.setattr("tenure.observe.exposition.Form", Counted)
    tally = metrics_of(observers)._tally
    for _ in range(3):
        tally.count(c.ELECTED)
        expose(TEXT)
    assert len(made) == 1
    tally.count(c.RUNS, "failed", "sweep")
    _, page = expose(TEXT)
    assert len(made) == 2
    assert b'tenure_runs_total{outcome="failed",task="sweep"} 1.0\n' in page
    assert b"tenure_took_office_total 3.0\n" in page


def test_a_registry_gets_the_same_numbers() -> None:
    scheduler = Scheduler("memory://")
    metrics = metrics_of(scheduler._runtime.observers)
    metrics._tally.count(c.RUNS, "failed", 'say "hi"')
    encode, _ = choose_encoder(TEXT)
    series = metrics.series()
    registered: Any = metrics
    assert generate_latest(registered).decode() == Form(series, encode).filled(series)
