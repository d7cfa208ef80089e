"""The live view: one calm screen, drawn anew ten times a second. No I/O but the console's."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tenure import every, triggers
from tenure.cli.demo.cluster import Fate, NodeProcess
from tenure.cli.demo.journal import Execution
from tenure.cli.demo.node import SCHEDULES
from tenure.cli.demo.observer import Snapshot
from tenure.cli.demo.story import Line, Scene, Tone
from tenure.cli.demo.summary import duration
from tenure.cli.demo.verdict import Takeover, lateness

WIDEST = 100
SPOTLIGHT = 3.0
LOG_AT_LEAST = 4
_NOTHING = Text("–", "dim"), Text(""), Text("")
_STYLES = {Tone.PLAIN: "", Tone.HARM: "red", Tone.GOOD: "green"}
_SIGNS = {Tone.PLAIN: " ", Tone.HARM: "✗", Tone.GOOD: "✓"}


class LiveView:
    """Shows scenes on a terminal's alternate screen; then leaves the log on the ordinary one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[Line] = []
        self._live = Live(
            console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)
        for text in log(self._lines, len(self._lines)):
            self._console.print(text)

    def show(self, scene: Scene) -> None:
        self._live.update(Stage(scene), refresh=True)

    def tell(self, line: Line) -> None:
        self._lines.append(line)  # to be left behind; a scene has them too


class Stage:
    """A scene, as a renderable that knows how much room it has."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scene, gap = self._scene, Text("")
        parts: list[Text | Table] = [
            *(_head(scene), gap, _leader(scene), gap, _nodes(scene), gap),
            *(_schedules(scene), gap, _figures(scene), gap),
        ]
        height = options.height or console.height
        if sum(_height(part) for part in parts) > height - LOG_AT_LEAST:
            parts = [part for part in parts if part is not gap]
        room = max(3, height - sum(_height(part) for part in parts))
        frame = Table.grid(padding=(0, 1), pad_edge=True)
        frame.add_column(width=min(options.max_width, WIDEST) - 2)
        frame.add_row(Group(*parts, *log(scene.lines, room)))
        yield frame


def _height(part: Text | Table) -> int:
    """Nothing wraps, so it is the number of rows, and one for the names of columns."""
    return part.row_count + part.show_header if isinstance(part, Table) else 1


def _sides() -> Table:
    """One line, with something at its left and something at its right."""
    line = Table.grid(expand=True)
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", no_wrap=True)
    return line


def _head(scene: Scene) -> Table:
    line = _sides()
    about = f"  {len(scene.nodes)} processes, one SQLite file"
    line.add_row(Text.assemble(("Tenure demo", "bold"), (about, "dim")), _coming(scene))
    return line


def _leader(scene: Scene) -> Table:
    line = _sides()
    line.add_row(_who_leads(scene), Text(f"{scene.elapsed:4.1f} s", "dim"))
    return line


def _who_leads(scene: Scene) -> Text:
    snapshot = scene.snapshot
    leader = snapshot.leader if snapshot else None
    node = next((n for n in scene.nodes if leader is not None and n.pid == leader.pid), None)
    if snapshot is None or leader is None or node is None or leader.acquired_at is None:
        return Text("No leader", "bold yellow")
    if node.fate is Fate.KILLED:
        return Text(f"No leader: {node.name} is dead", "bold red")
    if node.fate is Fate.FROZEN:
        left = _seconds(snapshot.now, leader.expires_at)
        return Text(f"{node.name} is frozen; its lease runs out in {left:.1f} s", "bold yellow")
    held = _seconds(leader.acquired_at, snapshot.now)
    text = Text.assemble(
        ("Leader ", "dim"),
        (node.name, "bold green"),
        ("  term ", "dim"),
        (str(leader.term), "bold"),
        ("  for ", "dim"),
        f"{held:.0f} s",
    )
    fresh = _fresh(scene, node)
    if fresh is not None and fresh.seconds is not None:
        text.append(f"  took over in {fresh.seconds:.2f} s", "bold green")
    return text


def _coming(scene: Scene) -> Text:
    if scene.coming is None:
        return Text("")
    what, second = scene.coming
    left = second - scene.elapsed
    if left <= 0:
        return Text(what, "dim")
    style = "bold yellow" if left < 1.5 and what != "the end" else "dim"
    return Text(f"{what} in {left:.0f} s" if left >= 0.5 else f"{what} now", style)


def _nodes(scene: Scene) -> Table:
    table = _table(("", 1), ("node", 8), ("pid>", 8), ("  state", 0), ("runs>", 6))
    executed = Counter(e.pid for e in scene.snapshot.executions) if scene.snapshot else Counter()
    for node in scene.nodes:
        state, style, mark = _state(scene, node)
        table.add_row(
            mark, node.name, str(node.pid), "  " + state, str(executed[node.pid]), style=style
        )
    return table


def _state(scene: Scene, node: NodeProcess) -> tuple[str, str, str]:
    """What a node is, in words; its style; its mark."""
    snapshot = scene.snapshot
    leads = snapshot is not None and snapshot.leader is not None
    leads = leads and snapshot.leader.pid == node.pid  # type: ignore[union-attr]
    if node.fate is Fate.KILLED:
        return "killed (SIGKILL)", "red", "✗"
    if node.fate is Fate.FROZEN:
        holds = ", its lease still holds" if leads else ", its term is over"
        return f"frozen (SIGSTOP){holds}", "yellow", "■"
    if node.fate is Fate.STOPPED:
        return "stopping" if node.alive else "stopped politely", "dim", " "
    if snapshot is None or node.pid not in snapshot.present:
        return "starting", "dim", " "
    if leads:
        fresh = _fresh(scene, node)
        return "leads", "bold reverse green" if fresh else "bold green", "▶"
    return "stands by", "", " "


def _fresh(scene: Scene, node: NodeProcess) -> Takeover | None:
    """The takeover by which this node leads, while it deserves a spotlight."""
    taken = scene.takeovers[-1] if scene.takeovers else None
    if taken is None or taken.fired_at is None or taken.successor_pid != node.pid:
        return None
    now = scene.snapshot.now if scene.snapshot else taken.fired_at
    return taken if _seconds(taken.fired_at, now) < SPOTLIGHT else None


def _schedules(scene: Scene) -> Table:
    table = _table(
        *(("", 1), ("schedule", 10), ("trigger", 0), ("last run", 11)),
        *(("by", 8), ("late>", 8), ("next>", 9)),
    )
    snapshot = scene.snapshot
    if snapshot is None or not snapshot.schedules:
        for name, (seconds, _) in SCHEDULES.items():
            table.add_row(" ", name, str(every(seconds=seconds)), *_NOTHING, Text("–", "dim"))
        return table
    last = {execution.schedule: execution for execution in snapshot.executions}
    for schedule in snapshot.schedules:
        execution = last.get(schedule.name)
        trigger = str(triggers.load(schedule.spec.trigger))
        when = _next(snapshot.now, schedule.next_due)
        table.add_row(" ", schedule.name, trigger, *_last(scene, snapshot, execution), when)
    return table


def _last(scene: Scene, snapshot: Snapshot, execution: Execution | None) -> tuple[Text, Text, Text]:
    if execution is None:
        return _NOTHING
    at = execution.at.astimezone()
    by = next((node.name for node in scene.nodes if node.pid == execution.pid), "?")
    new = _seconds(execution.at, snapshot.now) < 0.6
    style = "bold green" if new else ""
    late = Text(duration(execution.late), "yellow" if execution.late >= 0.5 else style)
    return Text(f"{at:%H:%M:%S}.{at.microsecond // 100_000}", style), Text(by, style), late


def _next(now: datetime, due: datetime | None) -> Text:
    if due is None:
        return Text("–", "dim")
    left = _seconds(now, due)
    return Text(f"in {left:.1f} s") if left > 0 else Text("due", "yellow")


def _figures(scene: Scene) -> Text:
    executions = scene.snapshot.executions if scene.snapshot else []
    figures = lateness(e.late for e in executions if e.attempt == 1)
    twice = len(executions) - len({(e.run, e.attempt) for e in executions})
    return Text.assemble(
        ("Executed ", "dim"),
        (str(len(executions)), "bold"),
        ("   twice ", "dim"),
        (str(twice), "bold red" if twice else "bold green"),
        ("   lateness p50 ", "dim"),
        (duration(figures.p50), "bold"),
        ("  most ", "dim"),
        (duration(figures.most), "bold"),
    )


def log(lines: list[Line], room: int) -> list[Text]:
    """The latest lines, at most one screen line each."""
    shown = []
    for line in lines[-room:]:
        text = Text.assemble(
            (f"{line.at:5.1f} ", "dim"),
            (f"{_SIGNS[line.tone]} ", _STYLES[line.tone]),
            (line.text, _STYLES[line.tone]),
            no_wrap=True,
            overflow="ellipsis",
        )
        shown.append(text)
    return shown


def _table(*columns: tuple[str, int]) -> Table:
    """A table without lines. Width 0 takes what is left; a name that ends with > aligns right."""
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name, width in columns:
        table.add_column(
            name.rstrip(">"),
            justify="right" if name.endswith(">") else "left",
            width=width or None,
            ratio=None if width else 1,
            no_wrap=True,
        )
    return table


def _seconds(begin: datetime, end: datetime | None) -> float:
    return 0.0 if end is None else max(0.0, (end - begin).total_seconds())
