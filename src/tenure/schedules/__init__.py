"""Schedules: what may be asked of them, what the code declares, and what is fired when.

Knows the protocols of `backends.base`, no store. May be imported by `node` and everything above.
"""
