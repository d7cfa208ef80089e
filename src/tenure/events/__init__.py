"""Events, on their way to those who want to hear of them.

May be imported by `schedules` and everything above. `model/events.py` has the values, and
`tasks/event_checks.py` checks what is emitted.
"""
