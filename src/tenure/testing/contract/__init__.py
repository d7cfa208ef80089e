"""What every backend must pass: each sentence of `tenure.backends.base` as a test.

A backend author writes a harness and subclasses the contract:

    class MyHarness(Harness):
        ...                                  # how to open it, how to let time pass

    @asynccontextmanager
    async def open_harness() -> AsyncIterator[Harness]: ...

    class TestMyBackend(BackendContract):
        @pytest.fixture
        async def harness(self) -> AsyncIterator[Harness]:
            async with open_harness() as harness:
                yield harness

    TestLeaseMachine = lease_machine(open_harness).TestCase
    TestRunMachine = run_machine(open_harness).TestCase

A backend with leases only has a `LeaseHarness`, the `LeaseBackendContract`, and the
`leases_only_machine`.

The tests are coroutines: run them with pytest-asyncio in auto mode. A clause that does not apply to
a backend is a visible skip with its reason, decided by the harness.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "attempts",
            "audit",
            "cancelling",
            "catching_up",
            "claim_turns",
            "confirming",
            "control",
            "damage",
            "due",
            "emitting",
            "ending",
            "enqueueing",
            "event_groups",
            "events",
            "failures",
            "fence",
            "firing",
            "forgetting",
            "harness",
            "history",
            "joining",
            "lease_records",
            "leases",
            "limits",
            "machines",
            "model",
            "opening",
            "order",
            "overlaps",
            "overview",
            "queue_stories",
            "queues",
            "recovery",
            "relays",
            "editions",
            "runs",
            "schedules",
            "summaries",
            "takeover",
            "wakeups",
        )
    )
)

from tenure.testing.contract.attempts import AttemptContract  # noqa: E402
from tenure.testing.contract.audit import AuditContract  # noqa: E402
from tenure.testing.contract.cancelling import (  # noqa: E402
    CancellingContract,
    LeaseCancellingContract,
)
from tenure.testing.contract.catching_up import CatchingUpContract  # noqa: E402
from tenure.testing.contract.claim_turns import ClaimTurnsContract  # noqa: E402
from tenure.testing.contract.confirming import ConfirmingContract  # noqa: E402
from tenure.testing.contract.control import (  # noqa: E402
    CancelContract,
    ResultContract,
    RetryContract,
)
from tenure.testing.contract.damage import DamageContract  # noqa: E402
from tenure.testing.contract.due import DueContract  # noqa: E402
from tenure.testing.contract.editions import EditionContract  # noqa: E402
from tenure.testing.contract.emitting import EmittingContract  # noqa: E402
from tenure.testing.contract.ending import EndingContract  # noqa: E402
from tenure.testing.contract.enqueueing import EnqueueContract  # noqa: E402
from tenure.testing.contract.event_groups import EventGroupContract  # noqa: E402
from tenure.testing.contract.events import EventContract  # noqa: E402
from tenure.testing.contract.failures import FailureContract  # noqa: E402
from tenure.testing.contract.fence import FenceContract  # noqa: E402
from tenure.testing.contract.firing import FiringContract  # noqa: E402
from tenure.testing.contract.forgetting import ForgettingContract  # noqa: E402
from tenure.testing.contract.harness import Harness, LeaseHarness, Lent  # noqa: E402
from tenure.testing.contract.history import HistoryContract  # noqa: E402
from tenure.testing.contract.joining import JoiningContract  # noqa: E402
from tenure.testing.contract.lease_records import LeaseRecordContract  # noqa: E402
from tenure.testing.contract.leases import LeaseContract  # noqa: E402
from tenure.testing.contract.lending import LendingContract  # noqa: E402
from tenure.testing.contract.limits import LimitContract  # noqa: E402
from tenure.testing.contract.machines import (  # noqa: E402
    lease_machine,
    leases_only_machine,
    run_machine,
)
from tenure.testing.contract.opening import OpeningContract  # noqa: E402
from tenure.testing.contract.order import OrderContract  # noqa: E402
from tenure.testing.contract.overlaps import OverlapContract  # noqa: E402
from tenure.testing.contract.overview import OverviewContract  # noqa: E402
from tenure.testing.contract.queue_stories import QueueStoryContract  # noqa: E402
from tenure.testing.contract.queues import QueueContract  # noqa: E402
from tenure.testing.contract.recovery import RecoveryContract  # noqa: E402
from tenure.testing.contract.relays import RelayContract  # noqa: E402
from tenure.testing.contract.runs import RunContract  # noqa: E402
from tenure.testing.contract.schedules import ScheduleContract  # noqa: E402
from tenure.testing.contract.summaries import SummaryContract  # noqa: E402
from tenure.testing.contract.takeover import TakeoverContract  # noqa: E402
from tenure.testing.contract.wakeups import LeaseWakeupContract, WakeupContract  # noqa: E402

__all__ = [
    "AttemptContract",
    "AuditContract",
    "BackendContract",
    "CancelContract",
    "CancellingContract",
    "CatchingUpContract",
    "ClaimTurnsContract",
    "ConfirmingContract",
    "DamageContract",
    "DueContract",
    "EditionContract",
    "EmittingContract",
    "EndingContract",
    "EnqueueContract",
    "EventContract",
    "EventGroupContract",
    "FailureContract",
    "FenceContract",
    "FiringContract",
    "ForgettingContract",
    "Harness",
    "HistoryContract",
    "JoiningContract",
    "LeaseBackendContract",
    "LeaseCancellingContract",
    "LeaseContract",
    "LeaseHarness",
    "LeaseRecordContract",
    "LeaseWakeupContract",
    "LendingContract",
    "Lent",
    "LimitContract",
    "OpeningContract",
    "OrderContract",
    "OverlapContract",
    "OverviewContract",
    "QueueContract",
    "QueueStoryContract",
    "RecoveryContract",
    "RelayContract",
    "ResultContract",
    "RetryContract",
    "RunContract",
    "ScheduleContract",
    "SummaryContract",
    "TakeoverContract",
    "WakeupContract",
    "lease_machine",
    "leases_only_machine",
    "run_machine",
]


class LeaseBackendContract(
    LeaseContract,
    TakeoverContract,
    LeaseRecordContract,
    DamageContract,
    ForgettingContract,
    LeaseWakeupContract,
    LeaseCancellingContract,
    OpeningContract,
):
    """For a backend that has leases only."""


class BackendContract(
    LeaseContract,
    TakeoverContract,
    LeaseRecordContract,
    DamageContract,
    ForgettingContract,
    ScheduleContract,
    DueContract,
    FenceContract,
    CatchingUpContract,
    FiringContract,
    HistoryContract,
    EndingContract,
    JoiningContract,
    ConfirmingContract,
    LendingContract,
    EditionContract,
    RunContract,
    EnqueueContract,
    EventContract,
    EventGroupContract,
    RelayContract,
    AuditContract,
    SummaryContract,
    EmittingContract,
    OrderContract,
    QueueContract,
    QueueStoryContract,
    ClaimTurnsContract,
    LimitContract,
    FailureContract,
    OverlapContract,
    OverviewContract,
    RecoveryContract,
    AttemptContract,
    CancelContract,
    RetryContract,
    ResultContract,
    WakeupContract,
    CancellingContract,
    OpeningContract,
):
    """All of it, for a backend that gives all of the stores."""
