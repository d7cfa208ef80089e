"""The probes of docs/deploy.md: a node that hangs is restarted, and a store that is away restarts
nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kubelet import Container, Kubelet
from tests.faults.observing import fetch
from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import task, until
from tests.support.servers import free_port, release_port

pytestmark = pytest.mark.faults

PATIENCE = 1.0
STICKS = {"tasks": [task("stick", 0.25, until="enough", timeout=0.2)], "app": "other"}


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_server() as server, running_cluster(server, tmp_path) as made:
        yield made


@pytest.fixture
def ports() -> Iterator[Callable[[], int]]:
    given: list[int] = []

    def another() -> int:
        given.append(free_port())
        return given[-1]

    yield another
    for port in given:
        release_port(port)


def test_node_that_hangs_is_restarted_and_a_store_that_is_away_restarts_nobody(
    postgres: PostgresCluster, ports: Callable[[], int]
) -> None:
    def container(who: str, **more: Any) -> Container:
        port = ports()
        options = {"health": f"127.0.0.1:{port}", "patience": PATIENCE, "hangs": "hang", **more}
        return Container(port, partial(postgres.a_node, who, **options))

    slots = container("slots", settings={"concurrency": 1}, **STICKS)
    with Kubelet(loop=container("loop"), frozen=container("frozen"), slots=slots) as kubelet:
        loop, frozen = kubelet.containers["loop"], kubelet.containers["frozen"]
        until(lambda: loop.ready and frozen.ready, "nodes that are well")
        postgres.tell("loop", "hang")  # Tenure's loop
        frozen.program.freeze()  # the whole process: nobody answers
        # A run that does not end has the only slot of the third.
        until(lambda: slots.restarts == 1, "a restart")
        postgres.tell("slots", "enough")  # so the next one ends
        once = dict.fromkeys(kubelet.containers, 1)
        until(lambda: kubelet.restarts == once, "restarts of the others")

        until(lambda: kubelet.all_ready, "three nodes that are well")
        postgres.server.stop()
        until(lambda: all(map(_misses_its_store, kubelet.containers.values())), "the outage")
        asked = {who: each.asked for who, each in kubelet.containers.items()}
        until(
            lambda: all(kubelet.containers[who].asked > n + 5 for who, n in asked.items()),
            "more probes than restart a node",
        )
        assert kubelet.all_ready
        postgres.server.start()
        until(lambda: any(map(_leads, kubelet.containers.values())), "a leader")
        assert kubelet.all_ready
        assert kubelet.restarts == once
    postgres.stop_all()


def _misses_its_store(container: Container) -> bool:
    return 'tenure_store_up{part="leases"} 0.0' in fetch(container.port, "/metrics")[1]


def _leads(container: Container) -> bool:
    return fetch(container.port, "/leader")[0] == 200
