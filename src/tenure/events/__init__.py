"""Events, on their way to those who want to hear of them.

May be imported by `schedules` and everything above. `model/events.py` has the values, and
`tasks/emitting.py` checks what is emitted.
"""
