"""Connections to PostgreSQL, and transactions on them.

connection.py   one connection                 session.py    its settings
home.py         the one that a process always has: it renews leases and listens
pool.py         the few that everything else shares
database.py     transactions, on either of these
blocking.py     single statements on the caller's own thread
"""
