"""docs/deploy.md as it stands: files that can be read, commands and variables that exist.

Nothing is deployed here: the programs themselves, under their servers, are tested in tests/e2e.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenure.observe.pages import PATHS
from tenure.settings import Settings
from tests.docs.commands import check
from tests.docs.markdown import ROOT, Block, blocks, name, pages

PAGE = ROOT / "docs" / "deploy.md"
GRACE = Settings().grace


def _shown(language: str, page: Path = PAGE) -> list[Block]:
    return [block for block in blocks(page) if block.language == language]


def _read(block: Block) -> dict[str, Any]:
    content = yaml.safe_load(block.text)
    assert isinstance(content, dict), block.place
    return content


YAML = [_read(block) for page in pages() for block in _shown("yaml", page)]
COMPOSE = [content for content in YAML if "services" in content]
SERVICES = [service for content in COMPOSE for service in content["services"].values()]
DEPLOYMENTS = [content for content in YAML if content.get("kind") == "Deployment"]


def test_there_is_one_of_each() -> None:
    assert COMPOSE
    assert DEPLOYMENTS
    assert _shown("ini")


# -- Compose --------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", COMPOSE)
def test_names_within_a_compose_file_lead_somewhere(content: dict[str, Any]) -> None:
    assert set(content) <= {"services", "volumes"}
    services = content["services"]
    for service in services.values():
        assert "image" in service
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in content["volumes"]
        for needed, how in service.get("depends_on", {}).items():
            assert "healthcheck" in services[needed] or how["condition"] != "service_healthy"


@pytest.mark.parametrize("service", [service for service in SERVICES if "command" in service])
def test_services_run_commands_that_exist_and_are_given_time(service: dict[str, Any]) -> None:
    assert isinstance(service["command"], list), "a shell would be process 1, and keep SIGTERM"
    check(service["command"])
    if str(service.get("environment", {}).get("TENURE_ENABLED", 1)) != "0":
        assert float(service["stop_grace_period"].removesuffix("s")) > GRACE


# -- Kubernetes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_deployment_finds_its_pods_and_gives_them_time(deployment: dict[str, Any]) -> None:
    assert deployment["apiVersion"] == "apps/v1"
    spec = deployment["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > GRACE
    for container in pod["containers"]:
        command = container["command"]
        check(command)
        port = int(command[command.index("--port") + 1])
        assert container["ports"][0] == {"containerPort": port}
        assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": port}
        assert container["ports"][1]["name"] == container["livenessProbe"]["httpGet"]["port"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_fragment_probes_the_pages_that_the_node_serves() -> None:
    (container,) = (
        container
        for c in YAML
        if "kind" not in c and "spec" in c
        for container in c["spec"]["template"]["spec"]["containers"]
        if "command" in container
    )
    check(container["command"])
    (port,) = container["ports"]
    assert container["command"][-1] == f"0.0.0.0:{port['containerPort']}"
    for probe, page in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": page, "port": port["name"]}
        assert page in PATHS


def test_fragment_mounts_the_volume_that_it_names() -> None:
    pods = (c["spec"]["template"]["spec"] for c in YAML if "kind" not in c and "spec" in c)
    (pod,) = (pod for pod in pods if "volumes" in pod)
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,), (variable,) = container["volumeMounts"], container["env"]
    assert mount["name"] == volume["name"]
    assert variable["value"].startswith(f"sqlite:///{mount['mountPath']}/")


# -- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def unit() -> RawConfigParser:
    (block,) = _shown("ini")
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(block.text)
    return parser


def test_unit_runs_a_command_that_exists_and_gives_it_time(unit: RawConfigParser) -> None:
    service = unit["Service"]
    program, *arguments = service["ExecStart"].split()
    check([Path(program).name, *arguments])
    assert float(service["TimeoutStopSec"]) > GRACE
    variable, _, url = service["Environment"].partition("=")
    assert variable == "TENURE_URL"
    assert url.startswith(f"sqlite:////var/lib/{service['StateDirectory']}/")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    (block,) = _shown("ini")
    file = tmp_path / "shop-node@1.service"
    file.write_text(re.sub(r"ExecStart=\S+", f"ExecStart={sys.executable}", block.text))
    done = subprocess.run(
        [analyze, "verify", "--man=no", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert file.name not in done.stderr, done.stderr  # a warning about it; others' are not ours


# -- variables ------------------------------------------------------------------------------------


def test_variables_named_on_any_page_are_read() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"(?:environ\.get\(|envvar=)\"(TENURE_\w+)\"", source))
    files = set(re.findall(r"from_environment\(\"(TENURE_\w+)\"\)", source))
    read |= files | {f"{variable}_FILE" for variable in files}
    assert read
    for page in pages():
        if page.name != "CONTRIBUTING.md":  # there are those of the tests
            unknown = set(re.findall(r"\bTENURE_[A-Z_]+", page.read_text())) - read
            assert not unknown, f"{name(page)}: nobody reads {unknown}"
