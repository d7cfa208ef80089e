"""What users hold for locks: `Leases`, `Lease`, leadership, and the guard `single_instance`.

May be imported by `contrib`, `cli` and `testing`.
"""
