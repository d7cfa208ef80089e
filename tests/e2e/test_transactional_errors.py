"""Errors of transactional tasks on PostgreSQL say what happened, and nothing else."""

from __future__ import annotations

import psycopg
import pytest

from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import a_scheduler, ended

TRIGGER = """
DROP TABLE IF EXISTS divided;
CREATE TABLE divided (id int);
CREATE OR REPLACE FUNCTION divides() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM 1 / (NEW.id - NEW.id); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER divides AFTER INSERT ON divided DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION divides()
"""


def test_division_by_zero_in_a_deferred_trigger_is_the_user_s(postgres_url: str) -> None:
    with eyes(postgres_url) as other:
        other.execute(TRIGGER)
    scheduler = a_scheduler(postgres_url)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        connection.execute("INSERT INTO divided VALUES (1)")

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    with eyes(postgres_url) as other:
        other.execute("DROP TABLE divided")
    assert after.state == "failed"
    assert "DivisionByZero" in (after.error or "")
    assert "believed dead" not in (after.error or "")


ENDS = {
    "psycopg's own: the server was not asked": "SELECT %s",
    "a limit of the task's own": "SET LOCAL statement_timeout = 100; SELECT pg_sleep(9)",
    "cancelled by somebody": "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(9)",
}


@pytest.mark.parametrize("how", ENDS)
def test_error_that_has_nothing_to_do_with_its_time_does_not_speak_of_it(
    postgres_url: str, how: str
) -> None:
    scheduler = a_scheduler(postgres_url)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        connection.execute(ENDS[how], () if "%" in ENDS[how] else None)

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    assert ("ProgrammingError" if "%" in ENDS[how] else "QueryCanceled") in (after.error or "")
    assert "takes longer" not in (after.error or "")
