"""A fact, and how it reaches listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, ClassVar

from tenure.model.value import value
from tenure.printable import field

Listener = Callable[["Fact"], None]
_Hearing = tuple[Listener, bool, logging.Logger | None]
"""A listener, whether it is called at once, and its logger if it is the log."""
_logger = logging.getLogger("tenure.facts")


@value(frozen=True, slots=True)
class Fact:
    """Something that happened on this node."""

    name: ClassVar[str] = "fact"
    level: ClassVar[int] = logging.INFO

    def values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        """For the log: one line of logfmt, in which no field can pass for another."""
        told = ((name, value) for name, value in self.values().items() if value is not None)
        return " ".join([self.name, *(f"{name}={field(value)}" for name, value in told)])


class Facts:
    """Tells facts to listeners."""

    def __init__(self, defer: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._listeners: list[tuple[str, Listener, bool]] = []
        self._heard: dict[str, list[_Hearing]] = {}
        """By the name of a fact. The log does not want most facts of most programs: those are not
        worth making, nor waking a thread for."""
        self._defer = defer

    def on(self, pattern: str, listener: Listener, *, at_once: bool = False) -> None:
        """Call `listener` with every fact whose name matches, such as "run.failed" or "run.*".

        `at_once`: where the fact is told, without a thread in between. For listeners of ours that
        never block: they cost a fraction of waking another thread."""
        self._listeners.append((pattern, listener, at_once))
        self._heard.clear()

    def heard(self, kind: type[Fact]) -> bool:
        """Does anybody listen to such facts? For those that are told of every run: making one for
        nobody costs more than asking."""
        for _, _, logger in self._listeners_of(kind):
            if logger is None or logger.isEnabledFor(kind.level):
                return True
        return False

    def _listeners_of(self, kind: Fact | type[Fact]) -> list[_Hearing]:
        heard = self._heard.get(kind.name)
        if heard is None:
            heard = [
                (listener, at_once, _logger_of(kind) if listener is log else None)
                for pattern, listener, at_once in self._listeners
                if fnmatchcase(kind.name, pattern)
            ]
            heard.sort(key=lambda to: not to[1])  # `heard` then need not ask the log first
            self._heard[kind.name] = heard
        return heard

    def tell(self, fact: Fact) -> None:
        for listener, at_once, logger in self._listeners_of(fact):
            if logger is not None and not logger.isEnabledFor(fact.level):
                continue
            if at_once or self._defer is None:
                _deliver(listener, fact)
            else:
                try:
                    self._defer(lambda listener=listener: _deliver(listener, fact))  # type: ignore[misc]
                except Exception:  # such as of a thread that cannot be started
                    _logger.exception("nobody could be told %s", fact)

    def later(self, job: Callable[[], None]) -> None:
        """Have this done where listeners are called, after them: it may block or raise."""
        if self._defer is None:
            _do(job)
            return
        try:
            self._defer(lambda: _do(job))
        except Exception:  # as above
            _logger.exception("%s could not be done", job)


def _do(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:
        _logger.exception("%s failed", job)


def _deliver(listener: Listener, fact: Fact) -> None:
    try:
        listener(fact)
    except Exception:
        _logger.exception("a listener failed on %s", fact.name)


def log(fact: Fact) -> None:
    """The listener that writes the log: logger tenure.<first word>, `event` as an extra field."""
    logger = _logger_of(fact)
    if logger.isEnabledFor(fact.level):
        logger.log(fact.level, "%s", fact, extra={"event": fact.name, "fact": fact.values()})


def _logger_of(fact: Fact | type[Fact]) -> logging.Logger:
    return _logger_named(fact.name)


@cache
def _logger_named(fact: str) -> logging.Logger:
    return logging.getLogger(f"tenure.{fact.partition('.')[0]}")
