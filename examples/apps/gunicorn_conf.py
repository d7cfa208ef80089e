"""Gunicorn starts the scheduler in each worker, after the fork, with or without --preload."""

from typing import Any


def post_worker_init(worker: Any) -> None:
    from flask_app import scheduler  # type: ignore[import-not-found]

    scheduler.start()


def worker_exit(server: Any, worker: Any) -> None:
    from flask_app import scheduler

    scheduler.stop(grace=20)  # less than graceful_timeout, which is 30 unless you set it
