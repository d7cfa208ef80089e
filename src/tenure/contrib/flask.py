"""For Flask: tasks in an application context.

scheduler.around(app_context(app))
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tenure.contrib.contexts import inside
from tenure.tasks.executor import Wrapper


class HasContext(Protocol):
    """A Flask application."""

    def app_context(self) -> AbstractContextManager[Any]: ...


def app_context(app: HasContext) -> Wrapper:
    """A wrapper: each task has `current_app`, `g` and what belongs to them, such as the session of
    Flask-SQLAlchemy, which is given back when the task has ended."""
    return inside(lambda run: app.app_context())
