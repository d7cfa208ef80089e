"""By how much the clocks of nodes differ from the store's, as the nodes say."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.model import Finding, LeaseRecord, Severity
from tenure.settings import Settings

SKEW_MOST = 1e12
"""More is no time: an infinity, or a number that is no float."""


def skew_of(node: LeaseRecord) -> float:
    """By how many seconds its clock is ahead of the store's. Anybody may have written the row."""
    return _seconds(node.info.get("skew"), 0.0)


def _seconds(told: object, otherwise: float) -> float:
    return float(told) if isinstance(told, int | float) and abs(told) < SKEW_MOST else otherwise


def check_skews(nodes: Iterable[LeaseRecord]) -> list[Finding]:
    """Of live nodes: those whose clock is wrong by more than they are told to accept."""
    return [
        Finding(
            "clock",
            Severity.WARNING,
            f"the clock of pid {node.pid} on {node.host} is {abs(skew):.3g} s"
            f" {'ahead of' if skew > 0 else 'behind'} the store's",
            "Keep that machine's clock with NTP. Nothing fires early or late because of it, but its"
            " log has other times.",
        )
        for node in nodes
        if abs(skew := skew_of(node)) > _seconds(node.info.get("skew_limit"), Settings().skew_limit)
    ][:20]
