"""Triggers: when a schedule occurs.

No I/O, and no clock. May be imported by `backends` and everything above.
"""

from tenure.triggers.at import At, at
from tenure.triggers.base import Trigger
from tenure.triggers.cron import Cron, cron
from tenure.triggers.every import Every, every
from tenure.triggers.explain import Explanation, Reason
from tenure.triggers.rrule import RRule, rrule
from tenure.triggers.stored_form import KNOWN, dump, fingerprint, kind_of, kinds, load
from tenure.triggers.text import as_trigger, parse

__all__ = [
    "KNOWN",
    "At",
    "Cron",
    "Every",
    "Explanation",
    "RRule",
    "Reason",
    "Trigger",
    "as_trigger",
    "at",
    "cron",
    "dump",
    "every",
    "fingerprint",
    "kind_of",
    "kinds",
    "load",
    "parse",
    "rrule",
]
