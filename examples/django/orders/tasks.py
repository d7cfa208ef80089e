"""Found by itself, since it is the `tasks.py` of an app."""

import os

from orders.models import Order
from tenure import Run, every
from tenure.contrib.django import schedule, task


@schedule(every(seconds=0.5), overlap="queue")
def sweep(run: Run) -> None:
    Order.objects.filter(customer="").delete()
    print(f"{run.nominal:%H:%M:%S.%f} swept by process {os.getpid()}", flush=True)


@task(retries=3)
def confirm(order: int) -> None:
    Order.objects.filter(pk=order).update(confirmed=True)
