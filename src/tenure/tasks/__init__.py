"""Tasks: the functions that runs execute, their policies, arguments and outcomes.

Does no I/O of its own. May be imported by `schedules` and everything above.
"""
