"""Who changed what, from where, and what came of it."""

from __future__ import annotations

from datetime import datetime

from tenure.model.value import value
from tenure.printable import one_line, storable

DONE = "done"
"""The outcome of a change that was made. Any other says why it was not."""
LONGEST_WORD, LONGEST_TEXT = 200, 500
"""How many characters of each part of a line are kept."""


@value(frozen=True, slots=True)
class NewAction:
    """A change that was asked for. Each part is one printable line, cut if it is long."""

    actor: str
    place: str
    """An address, or a host."""
    via: str
    """What they used: "dashboard", "api" or "cli"."""
    action: str
    subject: str = ""
    """What it is about: the name of a schedule or lease, the number of a run."""
    detail: str = ""
    """What was asked for beside that. Never arguments or a token."""

    def __post_init__(self) -> None:
        for name in ("actor", "place", "via", "action", "subject"):
            object.__setattr__(self, name, audited(getattr(self, name), LONGEST_WORD))
        object.__setattr__(self, "detail", audited(self.detail))


@value(frozen=True, slots=True)
class AuditLine:
    """A line of the audit."""

    id: int
    at: datetime
    actor: str
    place: str
    via: str
    action: str
    subject: str
    detail: str
    outcome: str | None
    """`DONE`, or why not. None: it is under way, or its process died, and what came of it is
    unknown."""


def subject_of(name: str) -> str:
    """As the lines about it have it."""
    return audited(name, LONGEST_WORD)


def audited(text: str, longest: int = LONGEST_TEXT) -> str:
    """As it is kept."""
    shown = storable(one_line(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
