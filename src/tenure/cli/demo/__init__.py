"""`tenure demo`: three nodes on SQLite, the leader killed before your eyes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tenure.cli.demo.cluster import Cluster
    from tenure.cli.demo.story import Line, Scene
    from tenure.cli.demo.verdict import Verdict

INTERRUPTED = 130


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(4, 3600),
    default=18.0,
    show_default=True,
    help="How long it takes; below 16 the leader is not frozen, below 8 only killed.",
)
@click.option(
    "--nodes", type=click.IntRange(2, 9), default=3, show_default=True, help="How many processes."
)
@click.option("--keep", is_flag=True, help="Leave database, journal and logs, and say where.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
@click.option("--no-kill", is_flag=True, help="Harm nobody: only fire, and count.")
def demo(seconds: float, nodes: int, keep: bool, as_json: bool, no_kill: bool) -> None:
    """Three nodes on SQLite, and the leader killed before your eyes.

    Starts real processes on a temporary SQLite file, kills the leader, freezes the next one and
    stops the third politely. Then compares what was executed with what was planned. Exit code 1
    if a promise was broken.
    """
    folder = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
    try:
        verdict = _play(folder, seconds, nodes, kill=not no_kill, quiet=as_json)
        _report(verdict, as_json)
        code = 0 if verdict.kept else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("Stopped; all nodes of the demo have ended.", err=True)
        code = INTERRUPTED
    finally:
        if keep:
            click.echo(f"Database, journal and logs are in {folder}", err=as_json)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


def _play(folder: Path, seconds: float, nodes: int, *, kill: bool, quiet: bool) -> Verdict:
    from tenure.cli.demo.cluster import Cluster
    from tenure.errors import TenureError

    cluster = Cluster(folder)
    try:
        with _stage(quiet) as (show, tell):
            return asyncio.run(_run(cluster, seconds, nodes, kill, show, tell))
    except TenureError as error:
        raise click.ClickException(str(error)) from error
    finally:
        cluster.end()


async def _run(
    cluster: Cluster,
    seconds: float,
    nodes: int,
    kill: bool,
    show: Callable[[Scene], None],
    tell: Callable[[Line], None],
) -> Verdict:
    from tenure.cli.demo.observer import Observer
    from tenure.cli.demo.story import Story, acts

    _end_on(signal.SIGTERM, getattr(signal, "SIGHUP", None))
    async with Observer(cluster) as observer:
        cluster.start(nodes)
        planned = acts(seconds, nodes, kill=kill)
        story = Story(cluster, observer, seconds=seconds, acts=planned, show=show, tell=tell)
        return await story.play()


def _end_on(*numbers: signal.Signals | None) -> None:
    """Treat these like Ctrl-C: clean up, then end."""
    task = asyncio.current_task()
    for number in numbers:
        if task is not None and number is not None:
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@contextmanager
def _stage(quiet: bool) -> Iterator[tuple[Callable[[Scene], None], Callable[[Line], None]]]:
    """Where the story is shown: live on a terminal, else as lines of text."""
    if not quiet and sys.stdin.isatty() and sys.stdout.isatty():
        from rich.console import Console

        from tenure.cli.demo.view import LiveView

        console = Console()
        if not console.is_dumb_terminal:
            with LiveView(console) as view:
                yield view.show, view.tell
            return

    def tell(line: Line) -> None:
        click.echo(f"{line.at:5.1f} s  {line.text}", err=quiet)

    yield (lambda _: None), tell


def _report(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        from tenure.cli.output import print_json

        print_json(verdict.to_json())
        return
    from rich.console import Console

    from tenure.cli.demo.summary import summary

    lines = summary(verdict, symbols=_can_print("✓✗→"))
    if sys.stdout.isatty():
        console = Console()
        for line in lines:
            console.print(line)
    else:
        for line in lines:
            click.echo(line.plain.rstrip())


def _can_print(symbols: str) -> bool:
    try:
        symbols.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
