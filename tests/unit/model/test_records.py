"""What users read of schedules and runs, without the stored form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenure import InvalidTrigger, Scheduler, cron, every
from tenure.model import RunRecord, Schedule


def invoice(customer: int, dry: bool = False) -> None: ...


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler("memory://", tz="Europe/Berlin")
    scheduler.task(invoice)
    yield scheduler
    scheduler.stop()


def test_schedule_says_what_it_is_about(scheduler: Scheduler) -> None:
    kwargs = {"customer": 7, "dry": True}
    added = scheduler.add("acme", "0 7 * * *", task=invoice, kwargs=kwargs, tenant="acme")
    assert (added.task, added.kwargs, added.tenant) == ("invoice", kwargs, "acme")
    assert added.trigger == cron("0 7 * * *", tz="Europe/Berlin")
    assert str(added.trigger) == "cron 0 7 * * * (Europe/Berlin)"
    assert len(added.trigger.preview(3)) == 3
    often = scheduler.add("often", every(minutes=5), task=invoice, kwargs={"customer": 1})
    assert often.trigger.preview(1)[0].moment == often.next_nominal


def test_arguments_of_a_run_are_a_dict(scheduler: Scheduler) -> None:
    run = scheduler.enqueue(invoice, kwargs={"customer": 7})
    assert (run.kwargs, run.arguments) == ({"customer": 7}, '{"customer":7}')
    [listed] = scheduler.runs()
    assert listed.kwargs == {"customer": 7}


@pytest.mark.parametrize("text", ["[1]", "{", "", "7"])
def test_what_was_edited_by_hand_is_named(scheduler: Scheduler, text: str) -> None:
    run: RunRecord = replace(scheduler.enqueue(invoice, kwargs={"customer": 7}), arguments=text)
    with pytest.raises(ValueError, match=rf"run {run.id}: its stored keyword arguments"):
        run.kwargs  # noqa: B018 - it is read
    added = scheduler.add("acme", "@daily", task=invoice, kwargs={"customer": 7})
    broken: Schedule = replace(added, spec=replace(added.spec, kwargs=text, trigger="no trigger"))
    with pytest.raises(ValueError, match="schedule 'acme': its stored keyword arguments"):
        broken.kwargs  # noqa: B018 - it is read
    with pytest.raises(InvalidTrigger, match="cannot be read"):
        broken.trigger  # noqa: B018 - it is read
