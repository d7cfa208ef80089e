"""Faults without end, on real processes and servers: what `scripts/torture` runs.

Three nodes and 200 schedules a second. Leaders are killed, frozen and cut off, and the servers are
restarted and emptied. In the end every occurrence must be accounted for, once.
"""
