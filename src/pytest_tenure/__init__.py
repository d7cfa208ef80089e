"""The pytest plugin of Tenure: the fixtures `tenure_world` and `tenure_recording`.

It is a package of its own because pytest imports it at every start, and `import tenure` would be
part of that. Tenure is imported by the first test that asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure.testing.recorder import Recording
    from tenure.testing.world import World


@pytest.fixture
def tenure_world() -> Iterator[Callable[..., World]]:
    """Makes worlds that end with the test: `world = tenure_world(scheduler)`.

    It takes what `tenure.testing.testing` takes.
    """
    from tenure.testing import testing

    with ExitStack() as stack:

        def make(scheduler: Any, **options: Any) -> World:
            return stack.enter_context(testing(scheduler, **options))

        yield make


@pytest.fixture
def tenure_recording() -> Iterator[Callable[..., Recording]]:
    """Records what your application asks of a scheduler, until the test ends:
    `recorded = tenure_recording(scheduler)`."""
    from tenure.testing import recording

    with ExitStack() as stack:

        def make(scheduler: Any) -> Recording:
            return stack.enter_context(recording(scheduler))

        yield make
