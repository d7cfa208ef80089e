"""Wrappers from context managers: what is entered before a task, and left when it has ended.

scheduler.around(inside(lambda run: tracer.start_as_current_span(run.task)))
"""

from tenure.tasks.contexts import inside

__all__ = ["inside"]
