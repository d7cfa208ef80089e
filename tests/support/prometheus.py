"""A Prometheus of our own: Debian's package, started privately, with Tenure's alert rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.servers import free_port, release_port

RULES = Path(__file__).parents[2] / "src/tenure/observe/prometheus/alerts.yaml"
_LIMIT = re.compile(r"> (60|300|3600)\b")


def find_prometheus() -> str:
    found = shutil.which("prometheus")
    if found is None:
        missing = "prometheus is not installed: apt-get install prometheus"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Prometheus:
    """Scrapes these ports of this machine, five times a second. What the rules wait for and compare
    with, minutes and hours, is one second here: all else of them is as it is shipped."""

    def __init__(self, ports: Iterable[int]) -> None:
        program = find_prometheus()
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-prometheus-"))
        self.port = free_port()
        rules = yaml.safe_load(RULES.read_text())
        for rule in rules["groups"][0]["rules"]:
            rule["expr"] = _LIMIT.sub("> 1", rule["expr"])
            rule["for"] = "1s"
        (self.folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        targets = [f"127.0.0.1:{port}" for port in ports]
        often = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        config: dict[str, Any] = {
            "global": {**often, "evaluation_interval": "200ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "shop", "static_configs": [{"targets": targets}]}],
        }
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    f"--config.file={self.folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
            )

    def firing(self) -> set[str]:
        """The alerts that fire now; none while it starts."""
        url = f"http://127.0.0.1:{self.port}/api/v1/alerts"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            return set()
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def wait(self, *alerts: str) -> None:
        """Until all of these fire."""
        deadline = time.monotonic() + 60
        while missing := set(alerts) - self.firing():
            if time.monotonic() > deadline:
                log = (self.folder / "log").read_text()
                raise AssertionError(f"{missing} did not fire: {self.firing()}\n{log[-2000:]}")
            time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait(timeout=30)
        release_port(self.port)
        shutil.rmtree(self.folder, ignore_errors=True)
