"""Policies: how a schedule is fired and its runs are executed. They are stored with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tenure.errors import InvalidSchedule
from tenure.model import CatchUp, OnCrash, Overlap
from tenure.printable import nearest
from tenure.tasks.arguments import NUMBER_MOST, lock_rule, seconds, whole
from tenure.tasks.options import Options

CATCH_UP_MOST = 1_000
_BEYOND = "; for longer stretches of the past there is backfill()"
_NO_TIMEOUT = "; without one a run may take as long as it likes"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a schedule is fired and its runs are executed."""

    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    catch_up_grace: float = 60.0
    overlap: Overlap = Overlap.SKIP
    lock: str | None = None
    priority: int = 0
    timeout: float | None = None
    retries: int = 0
    on_crash: OnCrash = OnCrash.RERUN

    @classmethod
    def parse(cls, what: str, given: Mapping[str, Any]) -> Policy:
        """The policy of these options; refuses those that do not exist."""
        if not given:
            return _DEFAULT
        unknown = sorted(set(given) - set(cls.__dataclass_fields__))
        if unknown and unknown[0] in Options.names():
            raise InvalidSchedule(
                f"{what}: {unknown[0]} belongs to the code of a task, not to a schedule. Give it"
                " where the task is declared, with @scheduler.task(…)."
            )
        if unknown:
            others = ["name", "kwargs", "tenant"]
            others += Options.names() if what.startswith("task ") else []
            known = [*others, *cls.__dataclass_fields__]
            raise InvalidSchedule(
                f"{what}: unknown option {unknown[0]!r}.{nearest(unknown[0], known)} Options are:"
                f" {', '.join(known)}. A task's arguments go into"
                f" kwargs={{{unknown[0]!r}: …}}."
            )
        return cls._of(**given)

    @classmethod
    def _of(
        cls,
        *,
        catch_up: str = "latest",
        catch_up_limit: object = 100,
        catch_up_grace: object = 60.0,
        overlap: str = "skip",
        lock: object = None,
        priority: object = 0,
        timeout: object = None,
        retries: object = 0,
        on_crash: str = "rerun",
    ) -> Policy:
        return cls(
            _choice(CatchUp, "catch_up", catch_up),
            whole("catch_up_limit", catch_up_limit, 1, CATCH_UP_MOST, _BEYOND),
            float(seconds("catch_up_grace", catch_up_grace, zero=True)),
            _choice(Overlap, "overlap", overlap),
            None if lock is None else lock_rule("lock", lock),
            whole("priority", priority, -NUMBER_MOST, NUMBER_MOST),
            None if timeout is None else seconds("timeout", timeout, otherwise=_NO_TIMEOUT),
            whole("retries", retries, 0, NUMBER_MOST),
            _choice(OnCrash, "on_crash", on_crash),
        )


_DEFAULT = Policy()


Choice = TypeVar("Choice", CatchUp, Overlap, OnCrash)


def _choice(kind: type[Choice], name: str, value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(str(k)) for k in kind)
        raise InvalidSchedule(f"{name}={value!r} is not known; choose from {choices}.") from None
