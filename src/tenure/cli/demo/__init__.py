"""`tenure demo`: three nodes on SQLite, the leader killed before your eyes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

INTERRUPTED = 130
_ASCII = str.maketrans({"✓": "ok    ", "✗": "BROKEN", "→": "->"})


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
@click.option("--json", "as_json", is_flag=True, help="Print only the summary, as JSON.")
@click.option("--no-kill", is_flag=True, help="Kill no process: only fire, and count.")
@click.option(
    "--dashboard",
    metavar="HOST:PORT",
    help="Also show it on a dashboard there; :0 takes any free port.",
)
def demo(
    seconds: float, nodes: int, keep: bool, as_json: bool, no_kill: bool, dashboard: str | None
) -> None:
    """Three nodes on SQLite, and the leader killed before your eyes.

    Starts real processes on a temporary SQLite file, kills the leader, freezes the next one and
    stops the third gracefully. Then compares what was executed with what was planned. The exit
    code is 1 if a promise was broken.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: clean up, then end
    folder = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
    try:
        with _beside(folder, dashboard) as address:
            kept = _play(folder, seconds, nodes, address, kill=not no_kill, as_json=as_json)
        sys.exit(0 if kept else 1)
    except KeyboardInterrupt:
        click.echo("Stopped; all nodes of the demo have ended.", err=True)
        sys.exit(INTERRUPTED)
    finally:
        if keep:
            click.echo(f"Database, journal and logs are in {folder}", err=as_json)
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _beside(folder: Path, bind: str | None) -> Iterator[str | None]:
    """The address of a dashboard that shows it, if one is wanted."""
    if bind is None:
        yield None
        return
    from tenure.cli.dashboard import served
    from tenure.cli.demo.node import DATABASE

    with served(f"sqlite:///{folder / DATABASE}", bind) as address:
        yield address


def _play(
    folder: Path, seconds: float, nodes: int, address: str | None, *, kill: bool, as_json: bool
) -> bool:
    """Show it: live on a terminal, else as lines of text. Was every promise kept?"""
    from rich.console import Console

    from tenure.cli.demo.story import Story, acts
    from tenure.cli.demo.view import live, summary
    from tenure.cli.output import print_json

    console, story = Console(highlight=False), Story(folder)
    plain = console.options.ascii_only
    screen = sys.stdin.isatty() and sys.stdout.isatty() and not console.is_dumb_terminal
    with ExitStack() as stack:
        stack.callback(story.end)
        if screen and not plain and not as_json:
            stack.enter_context(live(story, console))
        else:
            story.tell = lambda at, text: click.echo(f"{at:5.1f} s  {text}", err=as_json)
        if address is not None:
            story.say(f"the same on {address}")
        verdict = asyncio.run(story.play(seconds, nodes, acts(seconds, nodes) if kill else []))
    if as_json:
        print_json(verdict.to_json())
    else:
        for line in summary(verdict):
            text = line.translate(_ASCII) if plain else line
            console.print(text, soft_wrap=not console.is_terminal)
    return verdict.kept
