"""Triggers: when a schedule's occurrences are."""

from tenure.triggers.at import At, at
from tenure.triggers.base import Trigger
from tenure.triggers.cron import Cron, cron
from tenure.triggers.every import Every, every
from tenure.triggers.explain import Explanation, Reason
from tenure.triggers.rrule import RRule, rrule
from tenure.triggers.stored import KNOWN, dump, kind_of, kinds, load
from tenure.triggers.text import parse

__all__ = [
    "KNOWN",
    "At",
    "Cron",
    "Every",
    "Explanation",
    "RRule",
    "Reason",
    "Trigger",
    "at",
    "cron",
    "dump",
    "every",
    "kind_of",
    "kinds",
    "load",
    "parse",
    "rrule",
]
