"""A node in each worker, started after the fork, with or without --preload."""

from typing import Any


def post_worker_init(worker: Any) -> None:
    from tenure.contrib.django import scheduler

    scheduler.start()


def worker_exit(server: Any, worker: Any) -> None:
    from tenure.contrib.django import scheduler

    scheduler.stop(grace=20)  # less than graceful_timeout, which is 30 unless you set it
