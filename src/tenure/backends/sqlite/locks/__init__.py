"""File locks beside a SQLite database: which Tenure takes, and who holds SQLite's.

lockfile.py      the lock file: proof of death, and wake-ups
sharedlocks.py   SQLite's own locks, taken a second time so that copying does not drop them
bytelocks.py     locks on single bytes, of both kinds that Linux has
kernel_locks.py  which processes hold which locks
writer.py        which of them write or read the database
"""
