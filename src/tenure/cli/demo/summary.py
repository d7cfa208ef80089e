"""The verdict in words, for a terminal or plain."""

from __future__ import annotations

from rich.text import Text

from tenure.cli.demo.verdict import Lateness, Takeover, Verdict
from tenure.identity import clock_domain

_HOW = {"killed": "killed", "frozen": "frozen", "stopped": "asked to stop"}
MOST_NOTES = 20


def summary(verdict: Verdict, *, symbols: bool = True) -> list[Text]:
    """Line by line. Without `symbols` it is all ASCII."""
    good, bad = ("✓", "✗") if symbols else ("ok    ", "BROKEN")
    lines = [Text("")]
    if verdict.takeovers:
        lines.append(Text("From losing the leader to the next firing", "bold"))
        lines += [_takeover(takeover, verdict.bound, symbols) for takeover in verdict.takeovers]
        lines.append(Text(""))
    lines.append(Text("Promises, checked against the plan and the tasks' own journal", "bold"))
    width = max(len(promise.text) for promise in verdict.promises)
    for promise in verdict.promises:
        mark, style = (good, "green") if promise.kept else (bad, "bold red")
        said = (f"{promise.text:<{width}}", "" if promise.kept else style)
        lines.append(Text.assemble("  ", (mark, style), " ", said, "  ", (promise.detail, "dim")))
    lines += [Text(f"    {note}", "yellow") for note in verdict.notes[:MOST_NOTES]]
    if len(verdict.notes) > MOST_NOTES:
        lines.append(Text(f"    and {len(verdict.notes) - MOST_NOTES} more", "yellow"))
    lines += [Text(""), Text("Lateness, from due to started", "bold")]
    lines.append(_lateness("with a leader", verdict.calm))
    if verdict.leaderless.count:
        lines.append(_lateness("waiting for a leader", verdict.leaderless))
    lines.append(Text(""))
    if verdict.kept:
        lines.append(Text("Every promise was kept.", "bold green"))
    else:
        lines.append(Text("A promise was broken.", "bold red"))
    return lines


def _takeover(takeover: Takeover, bound: float, symbols: bool) -> Text:
    arrow = "→" if symbols else "->"
    seconds, promised = takeover.seconds, _promised(takeover.how, bound)
    took = "never" if seconds is None else f"{seconds:.2f} s"
    if seconds is None or seconds > bound:
        style, remark = "bold red", f"promised: {promised:g} s"
    elif seconds > promised:
        style, remark = "bold yellow", f"promised, on an idle machine: {promised:g} s"
    else:
        style, remark = "bold green", f"promised: {promised:g} s"
    who = f"{takeover.node} {arrow} {takeover.successor or 'nobody'}"
    return Text.assemble(
        f"  {_HOW[takeover.how]:<13}  {who}  ", (f"{took:>7}", style), (f"  {remark}", "dim")
    )


def _promised(how: str, bound: float) -> float:
    """A death is noticed at once only where the kernel can prove it; else by the ttl."""
    at_once = {"killed": 1.0, "stopped": 0.1} if clock_domain() else {"stopped": 0.1}
    return at_once.get(how, bound)


def _lateness(what: str, figures: Lateness) -> Text:
    if not figures.count:
        return Text(f"  {what:<20}  none")
    return Text.assemble(
        f"  {what:<20}  ",
        ("p50 ", "dim"),
        duration(figures.p50),
        ("   p99 ", "dim"),
        duration(figures.p99),
        (f"   of {figures.count}", "dim"),
    )


def duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"
