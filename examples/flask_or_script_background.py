"""A scheduler in the background of a program that has its own main loop, such as a web server.

    python examples/flask_or_script_background.py 8000
    curl localhost:8000

The server below is the standard library's, so that the example needs nothing else; a Flask or
Django process does the same: start() when the process begins, stop() before it ends. Run it twice,
on two ports, with one database: both answer with the same list of runs.

Under a server that forks workers (gunicorn), call start() in each worker, after the fork. All of
them may: they are one cluster.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import make_server

from tenure import Scheduler, every

scheduler = Scheduler()  # $TENURE_URL, else sqlite:///tenure.db


@scheduler.task(every(seconds=1))
def refresh() -> None:
    print(f"refreshed by process {os.getpid()}", flush=True)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    runs = [
        {"schedule": run.schedule, "nominal": run.nominal.isoformat(), "state": run.state}
        for run in scheduler.runs("refresh", limit=5)
    ]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"leads": scheduler.is_leader, "runs": runs}).encode()]


def main(port: int) -> None:
    with make_server("127.0.0.1", port, app) as server, scheduler:
        # SIGTERM ends the server's loop, and `with` hands over on the way out. Not by sys.exit():
        # raised in the middle of a request, this server would take it for an error of the page.
        ending = threading.Thread(target=server.shutdown)
        signal.signal(signal.SIGTERM, lambda *_: ending.start())
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
    except KeyboardInterrupt:
        print("stopped")
