"""A backend of another package, as its author has it: built, installed into an environment where
Tenure is a package like any other, put under the public contract, and used by its URL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.e2e.elsewhere import Environment, installed, pass_contract

EXAMPLE = ROOT / "examples" / "backend"
URL = "jsonfile:///leases.json"
USE = f"""
from tenure import ConfigError, Leases, Scheduler, single_instance

with Leases("{URL}") as leases, leases.hold("import") as lease:
    assert leases.acquire("import") is None
    with single_instance("{URL}", "worker") as guard:
        assert guard.held
    with Scheduler("sqlite:///jobs.db", leases="{URL}") as scheduler:
        assert scheduler.running
try:
    Scheduler("{URL}")
except ConfigError as error:
    print(error)
"""


COUNT = f"""
import pathlib, time
from tenure import Leases

counter = pathlib.Path("counter")
with Leases("{URL}") as leases:
    for _ in range(5):
        with leases.hold("counter", wait=60):
            value = int(counter.read_text())
            time.sleep(0.01)
            counter.write_text(str(value + 1))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(tmp_path_factory.mktemp("elsewhere"), EXAMPLE)


@pytest.mark.slow
def test_it_passes_the_public_contract(environment: Environment) -> None:
    """With the harness that docs/testing.md shows."""
    answer = pass_contract(environment, EXAMPLE)
    # A file has no proof of death, and what somebody edited in it is not this example's matter.
    assert " 14 skipped" in answer.out, answer


@pytest.mark.slow
def test_it_is_used_by_its_url(environment: Environment) -> None:
    said = environment.run("python", "-W", "error", "-c", USE).out
    assert said.startswith("jsonfile:// holds leases here, not schedules.")


@pytest.mark.slow
def test_commands_reach_it_by_its_url(environment: Environment) -> None:
    environment.run("python", "-c", USE)
    found = environment.run("tenure", "doctor", "--json", "--url", URL).json
    findings: dict[str, Any] = {finding["check"]: finding for finding in found["findings"]}
    assert found["store"] == f"jsonfile:///{environment.folder / 'leases.json'}"
    assert "has no checks of its own" in findings["store"]["text"]
    assert "0 live leases of" in findings["leases"]["text"]
    assert findings["clock"]["severity"] == "ok"

    names = {lease["name"] for lease in environment.run("tenure", *LIST, URL).json}
    assert {"import", "worker", "tenure/leader"} <= names
    status = ("tenure", "status", "--json", "--url", "sqlite:///jobs.db", "--leases", URL)
    assert environment.run(*status, code=1).json["leader"] is None  # its scheduler has stopped
    refused = environment.run("tenure", "status", "--url", URL, code=2).err
    assert "jsonfile:// holds leases here, not schedules" in refused
    wrong = environment.run("tenure", "doctor", "--url", "jsonfile://secret", code=2).err
    assert "jsonfile:///relative/leases.json" in wrong
    assert "secret" not in wrong


@pytest.mark.slow
def test_processes_exclude_each_other_by_it(environment: Environment) -> None:
    (environment.folder / "counter").write_text("0")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: environment.run("python", "-c", COUNT), range(4)))
    assert (environment.folder / "counter").read_text() == "20"


LIST = ("leases", "list", "--all", "--json", "--url")


def test_page_shows_the_harness_that_is_tested() -> None:
    shown = [block.text for block in blocks(ROOT / "docs" / "testing.md")]
    assert (EXAMPLE / "test_contract.py").read_text() in shown
