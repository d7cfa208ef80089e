"""Stores: `base/` is the specification, a file for each part of a store, and `memory`, `sqlite`,
`postgres` and `redis` meet it. `registry.py` opens them by URL, also those of other packages.

Knows `process` and what is below it, and no trigger. Everything above may import `base`; only
`scheduler`, `leases` and `cli` open stores.
"""
