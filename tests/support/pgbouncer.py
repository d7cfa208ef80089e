"""A PgBouncer of our own, in transaction mode: Debian's package, started privately."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.support.servers import free_port, release_port, unprivileged

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user=tenure

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
"""


def find_pgbouncer() -> Path | None:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None


class PgBouncer:
    """In front of a PostgreSQL server on this port, whatever the database."""

    def __init__(self, program: Path, server: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-pgbouncer-"))
        self.port = free_port()
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(_SETTINGS.format(server=server, port=self.port))
        self.folder.chmod(0o755)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(program), str(settings)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                **unprivileged(),
            )

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                log = (self.folder / "log").read_text()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"pgbouncer does not run: {log[-2000:]}") from None
                time.sleep(0.02)
            else:
                return self

    def __exit__(self, *exc: object) -> None:
        self.process.send_signal(signal.SIGTERM)  # at once
        self.process.wait(timeout=30)
        release_port(self.port)
        shutil.rmtree(self.folder, ignore_errors=True)
