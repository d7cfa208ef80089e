from django.db import connection
from django.test import TestCase, TransactionTestCase

from orders.models import Order
from orders.tasks import confirm
from tenure.contrib.django.testing import InWorld, on_test_database


class InMemory(InWorld, TestCase):
    def test_an_order_is_confirmed(self) -> None:
        self.client.post("/orders/", {"customer": "acme"})
        assert not Order.objects.get().confirmed  # nothing runs by itself
        self.world.run_due()
        assert Order.objects.get().confirmed

    def test_orders_without_a_customer_are_swept(self) -> None:
        Order.objects.create(customer="")
        self.world.advance(seconds=1)
        assert self.world.ran("sweep") == 2
        assert not Order.objects.exists()


class OnTheDatabase(TransactionTestCase):
    def test_the_order_and_its_run_are_one_transaction(self) -> None:
        if connection.vendor == "sqlite":
            self.skipTest("its test database is in memory")
        with on_test_database() as scheduler:
            self.client.post("/orders/", {"customer": "nobody"})
            assert not scheduler.runs(task=confirm)
            self.client.post("/orders/", {"customer": "acme"})
            (run,) = scheduler.runs(task=confirm)
            scheduler.start()
            scheduler.result(run, timeout=30)
        assert Order.objects.get().confirmed
