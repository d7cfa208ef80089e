"""What happens to a node and to its store."""

from __future__ import annotations

import logging

from tenure.facts.fact import Fact
from tenure.model.value import value


@value(frozen=True, slots=True)
class StartStage(Fact):
    """A start begins this stage, of those in node/stages.py or of the application's own."""

    name = "start.stage"
    level = logging.DEBUG
    stage: str


@value(frozen=True, slots=True)
class StartFailed(Fact):
    """A start ended at this stage; the caller of `start` gets the same error."""

    name = "start.failed"
    level = logging.ERROR
    stage: str
    error: str


@value(frozen=True, slots=True)
class NodeStarted(Fact):
    name = "node.started"
    node: str
    store: str
    tasks: int


@value(frozen=True, slots=True)
class NodeStopped(Fact):
    name = "node.stopped"
    node: str


@value(frozen=True, slots=True)
class NodeUnready(Fact):
    """All its slots are taken by hung runs: it executes nothing until one of them ends."""

    name = "node.unready"
    level = logging.ERROR
    concurrency: int
    hung: int


@value(frozen=True, slots=True)
class NodeReady(Fact):
    """It was unready, and has a slot again."""

    name = "node.ready"
    concurrency: int
    hung: int


@value(frozen=True, slots=True)
class StoreFailed(Fact):
    """The first of its kind among several failures in a row. The service tries again by itself."""

    name = "store.unavailable"
    level = logging.WARNING
    service: str
    error: str


@value(frozen=True, slots=True)
class StoreRecovered(Fact):
    name = "store.recovered"
    service: str
    after: float


@value(frozen=True, slots=True)
class ServiceFailed(Fact):
    """A defect of Tenure or of the store: the step is tried again, but needs a look."""

    name = "service.failed"
    level = logging.ERROR
    service: str
    error: str
