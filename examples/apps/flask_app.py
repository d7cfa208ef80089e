"""Flask with a scheduler in every process that serves.

cd examples/apps
python flask_app.py                              # the development server, with its reloader
gunicorn -c gunicorn_conf.py -w 4 flask_app:app  # also with --preload

Importing this module starts nothing. Who serves, starts: below for the development server, in
gunicorn_conf.py for gunicorn.
"""

import os
import signal
import sys

from flask import Flask
from werkzeug.serving import is_running_from_reloader

from tenure import Run, Scheduler, every

app = Flask(__name__)
scheduler = Scheduler()  # $TENURE_URL, else sqlite:///tenure.db


@scheduler.task(every(seconds=0.5), overlap="queue")
def sweep(run: Run) -> None:
    print(f"{run.nominal:%H:%M:%S.%f} swept by process {os.getpid()}", flush=True)


@app.get("/")
def index() -> dict[str, object]:
    return {"running": scheduler.running, "leads": scheduler.is_leader, "pid": os.getpid()}


def main(port: int) -> None:
    def serve() -> None:
        app.run(port=port, use_reloader=True)

    if is_running_from_reloader():
        # SIGTERM ends it as Ctrl-C does, so that `with` hands over on the way out.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        with scheduler:
            serve()
    else:
        serve()  # this process only watches the files and starts the other


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
