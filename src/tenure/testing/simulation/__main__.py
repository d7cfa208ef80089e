"""python -m tenure.testing.simulation: replay one seed, or run many."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import click

from tenure.clock import SystemClock
from tenure.testing.simulation.checker import Violation, check
from tenure.testing.simulation.history import History
from tenure.testing.simulation.run import simulate


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--histories", type=int, help="How many seeds to run, from --seed on.")
@click.option("--nodes", type=click.IntRange(2, 8), help="How many nodes; else drawn, 2 to 5.")
@click.option("--verbose", is_flag=True, help="Print every event of the history.")
def main(seed: int, histories: int | None, nodes: int | None, verbose: bool) -> None:
    """Simulate clusters with seeded faults, and check that every promise was kept."""
    if histories is None:
        history = simulate(seed, nodes=nodes)
        if verbose:
            for line in history.lines():
                click.echo(line)
        broken = check(history)
        for violation in broken:
            click.echo(violation.report())
        click.echo(_about(history))
        click.echo(f"digest {history.digest()}")
    else:
        broken = list(_many(seed, histories, nodes))
    sys.exit(1 if broken else 0)


def _many(seed: int, histories: int, nodes: int | None) -> Iterator[Violation]:
    clock, events = SystemClock(), 0
    begun = clock.monotonic()
    kinds: Counter[str] = Counter()
    failed: list[int] = []
    for count, this in enumerate(range(seed, seed + histories), start=1):
        history = simulate(this, nodes=nodes)
        events += len(history.events)
        broken = check(history)
        if broken:
            failed.append(this)
            kinds.update(violation.invariant for violation in broken)
            click.echo(f"\r{broken[0]}" if not sys.stderr.isatty() else f"\r\x1b[K{broken[0]}")
        yield from broken
        if count % 20 == 0 and sys.stderr.isatty():
            click.echo(
                f"\r{count} of {histories} histories, {len(failed)} broken", nl=False, err=True
            )
    took = clock.monotonic() - begun
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(
        f"{histories} histories, {events} events, {took:.1f} s, {histories / took:.0f} a second;"
        f" {len(failed)} broke a promise"
    )
    for invariant, times in kinds.most_common():
        click.echo(f"  {invariant}: {times}")


def _about(history: History) -> str:
    return (
        f"seed {history.seed}: {len(history.events)} events in {history.until:.1f} virtual seconds,"
        f" faults until {history.quiet_from:.1f}"
    )


if __name__ == "__main__":
    main()
