"""Redis as it is run in production: with TLS, behind Sentinel, as a cluster. Private as well."""

from __future__ import annotations

import asyncio
import functools
import random
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import redis
import trustme

from tests.support.servers import ValkeyServer, free_port, release_port

PATIENCE = 30.0
SERVICE = "tenure-test"
SLOTS = 16384
_BUS = 10_000


class TlsFront:
    """TLS in front of a port of this machine: the servers from wheels are built without it.

    Its certificate is for the name localhost, from a CA of its own (`ca`). With `client_ca` it
    wants a certificate of the client too.
    """

    def __init__(self, target: int, *, wants_certificate: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-tls-"))
        self._target = target
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        self.ca = self.folder / "ca.pem"
        self.client_certificate = self.folder / "client.pem"
        authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(
            self.client_certificate
        )
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(self._context)
        if wants_certificate:
            authority.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # refused handshakes
        self._ending = asyncio.Event()
        self._lines: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True
        )

    def url(self, host: str = "localhost", **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"rediss://{host}:{self.port}/0?{query}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._carry, sock=self._socket, ssl=self._context)
        await self._ending.wait()
        server.close()
        carrying = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
        # What is closed is open until the loop turns once more, and this is its last turn.
        for line in self._lines:
            line.transport.abort()
        await asyncio.gather(*(line.wait_closed() for line in self._lines), return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._lines += [back, writer]
        try:
            done, left = await asyncio.wait(
                [
                    asyncio.create_task(self._pump(reader, back)),
                    asyncio.create_task(self._pump(there, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in left:
                task.cancel()
            await asyncio.gather(*done, *left, return_exceptions=True)
        finally:
            for line in (back, writer):
                if not line.is_closing():  # closed twice, it cannot be aborted in Python 3.11.2
                    line.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()


class SentinelSetup:
    """A master, replicas, and sentinels that watch them."""

    def __init__(self, *, replicas: int = 0, sentinels: int = 1, clock: bool = False) -> None:
        self.master = ValkeyServer(clock=clock, **{"repl-diskless-sync-delay": "0"})
        self.replicas = [
            ValkeyServer(clock=clock, replicaof=f"127.0.0.1 {self.master.port}")
            for _ in range(replicas)
        ]
        self.sentinels = [_Sentinel(self.master.port, quorum=1) for _ in range(sentinels)]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def owner(self, key: str) -> ValkeyServer:
        """The master, as far as a sentinel knows: it has every key."""
        _, port = _ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(s for s in (self.master, *self.replicas) if s.port == int(port))

    def start(self) -> Self:
        for server in (self.master, *self.replicas):
            server.start()
        for replica in self.replicas:
            _until_linked(replica)
        # Now, not before: a sentinel asks its master for replicas at once, and then rarely.
        for sentinel in self.sentinels:
            sentinel.start()
            _until(functools.partial(_sees, sentinel, len(self.replicas)))
        return self

    def close(self) -> None:
        for server in (*self.sentinels, *self.replicas, self.master):
            server.close()


class _Sentinel(ValkeyServer):
    """The same program, watching another."""

    def __init__(self, master: int, quorum: int) -> None:
        super().__init__()
        (self.folder / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\nsave ''\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {master} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )

    def arguments(self) -> list[str]:
        return [str(self.folder / "sentinel.conf"), "--sentinel"]


class ClusterSetup:
    """Three nodes that share the slots, each with a replica if wanted."""

    def __init__(self, *, replicas: bool = False, clock: bool = False, timeout: int = 2000) -> None:
        # Nodes judge each other by the clock that tests move: give them time.
        settings = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(100_000_000 if clock else timeout),
            "cluster-require-full-coverage": "no",
            "cluster-replica-validity-factor": "0",
            "repl-diskless-sync-delay": "0",
        }
        self.nodes = [ValkeyServer(clock=clock, **settings) for _ in range(6 if replicas else 3)]
        for node in self.nodes:
            release_port(node.port)
            node.port = _free_port_with_bus()

    @property
    def primaries(self) -> list[ValkeyServer]:
        return self.nodes[:3]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.primaries):
            slots = range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
            _ask(node, "CLUSTER", "ADDSLOTS", *slots)  # Redis 6.2 takes no ranges
        for number, node in enumerate(self.nodes, 1):
            _ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number)
            _ask(self.nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port)
        _until(lambda: all(len(_nodes(node)) == len(self.nodes) for node in self.nodes))
        for primary, replica in zip(self.primaries, self.nodes[3:], strict=False):
            _ask(replica, "CLUSTER", "REPLICATE", _ask(primary, "CLUSTER", "MYID"))
        for replica in self.nodes[3:]:
            _until_linked(replica)
        _until(lambda: all("state:ok" in _ask(n, "CLUSTER", "INFO") for n in self.nodes))
        return self

    def owner(self, key: str) -> ValkeyServer:
        """The node that has this key, as far as the others know."""
        with redis.RedisCluster(host="127.0.0.1", port=self._living().port) as client:
            node = client.get_node_from_key(key)
        return next(each for each in self.nodes if node is not None and each.port == node.port)

    def move_clock(self, seconds: float) -> None:
        for node in self.nodes:
            node.move_clock(seconds)

    def close(self) -> None:
        for node in self.nodes:
            node.close()
            release_port(node.port + _BUS)

    def _living(self) -> ValkeyServer:
        return next(node for node in self.nodes if node.process is not None)


def _ask(server: ValkeyServer, *command: object) -> Any:
    """As the server says it: without what the driver makes of it."""
    with redis.Redis(port=server.port, decode_responses=True) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)


def _free_port_with_bus() -> int:
    """Nodes talk to each other at their port + 10,000; only from Redis 7 on it can be chosen.

    Both are below the ports that a system gives to clients.
    """
    while True:
        port = random.randrange(10_000, 22_000)
        with suppress(OSError):
            free_port(wanted=port)
            try:
                free_port(wanted=port + _BUS)
            except OSError:
                release_port(port)
                raise
            return port


def _nodes(server: ValkeyServer) -> list[str]:
    lines = str(_ask(server, "CLUSTER", "NODES")).splitlines()
    return [line for line in lines if "handshake" not in line]


def _sees(sentinel: ValkeyServer, replicas: int) -> bool:
    return len(_ask(sentinel, "SENTINEL", "REPLICAS", SERVICE)) == replicas


def _until_linked(replica: ValkeyServer) -> None:
    _until(lambda: "master_link_status:up" in _ask(replica, "INFO", "replication"))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s for the servers to find each other")
        time.sleep(0.02)
