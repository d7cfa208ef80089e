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
            "cancelling",
            "catching_up",
            "due",
            "fence",
            "firing",
            "forgetting",
            "harness",
            "history",
            "joining",
            "lease_records",
            "leases",
            "machines",
            "model",
            "order",
            "recovery",
            "releases",
            "runs",
            "schedules",
            "takeover",
            "wakeups",
        )
    )
)

from tenure.testing.contract.cancelling import CancellingContract  # noqa: E402
from tenure.testing.contract.catching_up import CatchingUpContract  # noqa: E402
from tenure.testing.contract.due import DueContract  # noqa: E402
from tenure.testing.contract.fence import FenceContract  # noqa: E402
from tenure.testing.contract.firing import FiringContract  # noqa: E402
from tenure.testing.contract.forgetting import ForgettingContract  # noqa: E402
from tenure.testing.contract.harness import Harness, Lent  # noqa: E402
from tenure.testing.contract.history import HistoryContract  # noqa: E402
from tenure.testing.contract.joining import JoiningContract  # noqa: E402
from tenure.testing.contract.lease_records import LeaseRecordContract  # noqa: E402
from tenure.testing.contract.leases import LeaseContract  # noqa: E402
from tenure.testing.contract.machines import lease_machine, run_machine  # noqa: E402
from tenure.testing.contract.order import OrderContract  # noqa: E402
from tenure.testing.contract.recovery import RecoveryContract  # noqa: E402
from tenure.testing.contract.releases import ReleaseContract  # noqa: E402
from tenure.testing.contract.runs import RunContract  # noqa: E402
from tenure.testing.contract.schedules import ScheduleContract  # noqa: E402
from tenure.testing.contract.takeover import TakeoverContract  # noqa: E402
from tenure.testing.contract.wakeups import WakeupContract  # noqa: E402

__all__ = [
    "BackendContract",
    "CancellingContract",
    "CatchingUpContract",
    "DueContract",
    "FenceContract",
    "FiringContract",
    "ForgettingContract",
    "Harness",
    "HistoryContract",
    "JoiningContract",
    "LeaseContract",
    "LeaseRecordContract",
    "Lent",
    "OrderContract",
    "RecoveryContract",
    "ReleaseContract",
    "RunContract",
    "ScheduleContract",
    "TakeoverContract",
    "WakeupContract",
    "lease_machine",
    "run_machine",
]


class BackendContract(
    LeaseContract,
    TakeoverContract,
    LeaseRecordContract,
    ForgettingContract,
    ScheduleContract,
    DueContract,
    FenceContract,
    CatchingUpContract,
    FiringContract,
    HistoryContract,
    JoiningContract,
    ReleaseContract,
    RunContract,
    OrderContract,
    RecoveryContract,
    WakeupContract,
    CancellingContract,
):
    """All of it, for a backend that gives all of the stores."""
