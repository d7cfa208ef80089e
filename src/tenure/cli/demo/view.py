"""What people see, in rich's markup: one calm screen, drawn again and again, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tenure.cli.demo.node import SCHEDULES
from tenure.cli.demo.story import Fate, Node, Story
from tenure.cli.demo.verdict import BOUND, Takeover, Verdict, percentiles
from tenure.process.identity import clock_domain

WIDEST = 100
SPOTLIGHT = 3.0
LOG_AT_LEAST = 4
MOST_NOTES = 20
_STYLES = {" ": "none", "✗": "red", "✓": "green"}


@contextmanager
def live(story: Story, console: Console) -> Iterator[None]:
    """Show it on the terminal's alternate screen; then leave the log on the ordinary one."""
    try:
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            story.show = lambda: screen.update(_screen(story, *console.size), refresh=True)
            yield
    finally:
        console.print("\n".join(_log(story)))


def _screen(story: Story, width: int, height: int) -> Text:
    width = min(width, WIDEST) - 2
    rows = [_head(story, width), "", *_nodes(story, width), ""]
    rows += [*_schedules(story, width), "", _figures(story), ""]
    if len(rows) + LOG_AT_LEAST > height:
        rows = [row for row in rows if row]
    rows += _log(story)[-max(3, height - len(rows)) :]
    screen = Text.from_markup("\n".join(f" {row}" for row in rows), overflow="ellipsis")
    screen.no_wrap = True
    return screen


def _log(story: Story) -> list[str]:
    return [f"[dim]{at:5.1f}[/] [{_STYLES[s]}]{s} {text}[/]" for at, s, text in story.lines]


def _head(story: Story, width: int) -> str:
    about = f"{story.elapsed:4.1f} s  {len(story.nodes)} processes, one SQLite file"
    coming, second = story.coming
    left = second - story.elapsed
    style = "bold yellow" if 0 < left < 1.5 and coming != "the end" else "dim"
    if left > 0:
        coming += f" in {left:.0f} s" if left >= 0.5 else " now"
    room = max(len(coming) + 1, width - len(f"Tenure demo  {about}"))
    return f"[bold]Tenure demo[/]  [dim]{about}[/][{style}]{coming:>{room}}[/]"


def _nodes(story: Story, width: int) -> Iterator[str]:
    room = max(1, width - 29)
    yield f"[dim]  {'node':<8} {'pid':>8}   {'state':<{room}} {'runs':>6}[/]"
    executed = Counter(execution.pid for execution in story.executions)
    for node in story.nodes:
        mark, state, style = _state(story, node)
        row = f"{mark} {node.name:<8} {node.pid:>8}   {state:<{room}.{room}}"
        yield f"[{style}]{row} {executed[node.pid]:>6}[/]"


def _state(story: Story, node: Node) -> tuple[str, str, str]:
    """A node's mark, what it does, and its style."""
    leader = story.leader if story.leading is node else None
    if node.fate is Fate.STOPPED:
        return " ", "stopping" if node.alive else "stopped gracefully", "dim"
    if node.fate is not Fate.RUNNING:
        left = _seconds(story.now, leader.expires_at) if leader else 0.0
        lease = f"its lease runs out in {left:.1f} s" if leader else "its term is over"
        mark, style = ("✗", "red") if node.fate is Fate.KILLED else ("■", "yellow")
        return mark, f"{node.fate.name.lower()} ({node.fate}), {lease}", style
    if leader is None or node.pid not in story.present:
        return (" ", "stands by", "none") if node.pid in story.present else (" ", "starting", "dim")
    state = f"leads, term {leader.term}, for {_seconds(leader.acquired_at, story.now):.0f} s"
    for taken in story.takeovers[-1:]:
        fresh = taken.fired_at and _seconds(taken.fired_at, story.now) < SPOTLIGHT
        if fresh and taken.successor_pid == node.pid:
            return "▶", f"{state}: took over in {taken.seconds:.2f} s", "bold reverse green"
    return "▶", state, "bold green"


def _schedules(story: Story, width: int) -> Iterator[str]:
    room = max(1, width - 53)
    head = f"{'last run':<11} {'by':<8} {'late':>8} {'next':>9}"
    yield f"[dim]  {'schedule':<10} {'trigger':<{room}.{room}} {head}[/]"
    names = {node.pid: node.name for node in story.nodes}
    due = {schedule.name: schedule.next_due for schedule in story.schedules}
    last = {execution.schedule: execution for execution in story.executions}
    for name, trigger in SCHEDULES.items():
        ran, left = f"[dim]{'–':<29}[/]", _seconds(story.now, due.get(name))
        if name in last:
            at, late = last[name].at.astimezone(), last[name].late
            style = "bold green" if _seconds(at, story.now) < 0.6 else "none"
            clock = f"{at:%H:%M:%S}.{at.microsecond // 100_000}"
            ran = f"[{style}]{clock:<11} {names[last[name].pid]:<8}[/]"
            ran += f" [{'yellow' if late >= 0.5 else style}]{duration(late):>8}[/]"
        when, style = (f"in {left:.1f} s", "none") if left else ("due", "yellow")
        when, style = (when, style) if due.get(name) else ("–", "dim")
        yield f"  {name:<10} {trigger!s:<{room}.{room}} {ran} [{style}]{when:>9}[/]"


def _figures(story: Story) -> str:
    executions = story.executions
    late = percentiles(e.late for e in executions if e.attempt == 1)
    twice = len(executions) - len({(e.run, e.attempt) for e in executions})
    repeated = f"[dim]twice[/] [bold {'red' if twice else 'green'}]{twice}[/]"
    p50, most = duration(late["p50"]), duration(late["most"])
    lateness = f"[dim]lateness p50[/] [bold]{p50}[/]  [dim]most[/] [bold]{most}[/]"
    return f"[dim]Executed[/] [bold]{len(executions)}[/]   {repeated}   {lateness}"


def _seconds(begin: datetime | None, end: datetime | None) -> float:
    return max(0.0, (end - begin).total_seconds()) if begin and end else 0.0


def duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def summary(verdict: Verdict) -> Iterator[str]:
    """Line by line."""
    yield ""
    if verdict.takeovers:
        yield "[bold]From losing the leader to the next firing[/]"
        yield from map(_takeover, verdict.takeovers)
        yield ""
    yield "[bold]Promises, checked against the plan and the tasks' own journal[/]"
    width = max(len(promise.text) for promise in verdict.promises)
    for text, kept, detail in verdict.promises:
        mark, style = ("[green]✓[/]", "none") if kept else ("[bold red]✗[/]", "bold red")
        yield f"  {mark} [{style}]{text:<{width}}[/]  [dim]{detail}[/]"
    notes = verdict.notes
    more = [f"and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
    yield from (f"    [yellow]{note}[/]" for note in notes[:MOST_NOTES] + more)
    yield "\n[bold]Lateness, from due to started[/]"
    yield _lateness("with a leader", verdict.lateness["calm"])
    if verdict.lateness["leaderless"]["count"]:
        yield _lateness("waiting for a leader", verdict.lateness["leaderless"])
    yield ""
    good, bad = "[bold green]Every promise was kept.[/]", "[bold red]A promise was broken.[/]"
    yield good if verdict.kept else bad


def _takeover(takeover: Takeover) -> str:
    how = {"stopped": "asked to stop"}.get(takeover.how, takeover.how)
    who = f"{takeover.node} → {takeover.successor or 'nobody'}"
    # A death is noticed at once only where the kernel can prove it; else by the ttl.
    promised = {"stopped": 0.1, "killed": 1.0 if clock_domain() else BOUND}.get(takeover.how, BOUND)
    seconds, note, style = takeover.seconds, "promised", "green"
    if seconds is None or seconds > BOUND:
        style = "red"
    elif seconds > promised:
        note, style = "promised, on an idle machine", "yellow"
    took = "never" if seconds is None else f"{seconds:.2f} s"
    return f"  {how:<13}  {who}  [bold {style}]{took:>7}[/]  [dim]{note}: {promised:g} s[/]"


def _lateness(what: str, late: dict[str, float]) -> str:
    p50, p99 = duration(late["p50"]), duration(late["p99"])
    figures = f"[dim]p50[/] {p50}   [dim]p99[/] {p99}   [dim]of {late['count']:.0f}[/]"
    return f"  {what:<20}  {figures if late['count'] else 'none'}"
