"""python -m tenure.testing.simulation: replay one seed, or run many."""

from __future__ import annotations

import sys

import click

from tenure.process.clock import SystemClock
from tenure.testing.simulation.checker import check
from tenure.testing.simulation.run import STORES, simulate
from tenure.testing.simulation.summary import Summary

OFTEN, SELDOM = 0.5, 10.0
"""How many seconds between two words about progress: on a terminal, and in a log."""


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--histories", type=int, help="How many seeds to run, from --seed on.")
@click.option("--nodes", type=click.IntRange(2, 8), help="How many nodes; else drawn, 2 to 5.")
@click.option(
    "--store",
    type=click.Choice(list(STORES)),
    default="memory",
    show_default=True,
    help="What the cluster keeps everything in.",
)
@click.option("--verbose", is_flag=True, help="Print every event of the history.")
def main(seed: int, histories: int | None, nodes: int | None, store: str, verbose: bool) -> None:
    """Simulate clusters with seeded faults, and check that every promise was kept."""
    kept = _one(seed, nodes, store, verbose) if histories is None else True
    if histories is not None:
        kept = _many(seed, histories, nodes, store)
    sys.exit(0 if kept else 1)


def _one(seed: int, nodes: int | None, store: str, verbose: bool) -> bool:
    history = simulate(seed, nodes=nodes, store=store)
    if verbose:
        for line in history.lines():
            click.echo(line)
    broken = check(history)
    for violation in broken:
        click.echo(violation.report())
    summary = Summary()
    summary.add(history, broken)
    for line in summary.lines():
        click.echo(line)
    click.echo(f"seed {seed} on {store}, faults until {history.quiet_from:.1f} s")
    click.echo(f"digest {history.digest()}")
    return not broken


def _many(seed: int, histories: int, nodes: int | None, store: str) -> bool:
    clock, summary = SystemClock(), Summary()
    begun = told = clock.monotonic()
    terminal = sys.stderr.isatty()
    wipe = "\r\x1b[K" if terminal else ""
    for this in range(seed, seed + histories):
        history = simulate(this, nodes=nodes, store=store)
        broken = check(history)
        summary.add(history, broken)
        if broken:
            click.echo(f"{wipe}{broken[0]}")
        now = clock.monotonic()
        if now - told > (OFTEN if terminal else SELDOM):
            told = now
            done = summary.histories
            left = (now - begun) / done * (histories - done)
            text = (
                f"{done} of {histories} histories, {len(summary.broken)} broken, {left:.0f} s left"
            )
            click.echo(f"{wipe}{text}", nl=not terminal, err=True)
    if terminal:
        click.echo(wipe, nl=False, err=True)
    took = clock.monotonic() - begun
    for line in summary.lines():
        click.echo(line)
    click.echo(f"on {store}: {took:.1f} s, {histories / took:.0f} histories a second")
    return not summary.broken


if __name__ == "__main__":
    main()
