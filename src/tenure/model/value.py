"""Values are dataclasses that never change once they are made: `@value(frozen=True, slots=True)`.

Type checkers read that as `@dataclass(frozen=True, slots=True)`, and refuse to change one. At run
time nothing does: to guard its fields, a frozen dataclass sets each by a call of its own when it is
made: that takes five times as long, and some are made for every run (docs/adr/0034). So nobody may
change what others have as well: listeners share a fact, the memory store hands out what it keeps,
and a relay goes by the events that its sink was given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    T = TypeVar("T")

    def value(*, frozen: bool, slots: bool) -> Callable[[type[T]], type[T]]:
        """Equal and hashed by their fields, as frozen ones are."""
        assert frozen, "what changes is no value: use @dataclass"
        return dataclass(slots=slots, unsafe_hash=True)


__all__ = ["value"]
