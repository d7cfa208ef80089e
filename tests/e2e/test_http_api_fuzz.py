"""The HTTP API, tried from its own description: no 5xx, and no answer that it does not describe.

Always the same requests. `TENURE_FUZZ=500` tries so many for each operation, and others each time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tenure import AsyncScheduler, Leases
from tenure.web.api.operations import TABLE
from tenure.web.api.table import Operation
from tests.e2e.http_api import Api, application

EXAMPLES = int(os.environ.get("TENURE_FUZZ", "6"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


KNOWN = {"name": "a", "run": 1, "lease": "job", "event": "1/manual/1", "topic": "t", "group": "g"}


@pytest.fixture(scope="module")
def described() -> Iterator[schemathesis.schemas.BaseSchema]:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'tenure.db'}"
        served = AsyncScheduler(url)
        app = application(served, actor="ann", may_write=True)
        api = Api(app)
        api.post("/schedules", {"name": "a", "trigger": "every 1h", "task": "report"}, 201)
        api.post("/runs", {"task": "report"}, 201)
        with Leases(url) as leases:
            leases.acquire("job", ttl=60)
        yield schemathesis.openapi.from_asgi("/api/openapi.json", app)
        asyncio.run(served.stop())


def _tried() -> Iterator[object]:
    for operation in TABLE:
        yield pytest.param(operation, GenerationMode.POSITIVE, id=operation.id)
        if operation.parameters or operation.query or operation.body:  # else nothing can be wrong
            yield pytest.param(operation, GenerationMode.NEGATIVE, id=f"{operation.id}-wrong")


@pytest.mark.parametrize(("operation", "mode"), list(_tried()))
def test_every_answer_is_described(
    operation: Operation, mode: GenerationMode, described: schemathesis.schemas.BaseSchema
) -> None:
    @given(case=described[operation.path][operation.method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize="TENURE_FUZZ" not in os.environ,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def attempt(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(checks=CHECKS)
        if case.path_parameters:
            case.path_parameters = {name: KNOWN.get(name, "x") for name in case.path_parameters}
            case.call_and_validate(checks=CHECKS[:5])

    attempt()
