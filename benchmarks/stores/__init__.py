"""The stores that can be measured. Another one is another class, and an entry in `STORES`."""

from __future__ import annotations

from benchmarks.stores.base import Place, Store, Usage, backend, lease_backend
from benchmarks.stores.postgres import Postgres
from benchmarks.stores.redis import Redis
from benchmarks.stores.sqlite import SQLite

__all__ = ["STORES", "Place", "Store", "Usage", "backend", "lease_backend"]

STORES: dict[str, type[Store]] = {"sqlite": SQLite, "postgres": Postgres, "redis": Redis}
