"""`tenure doctor`: checks of the store and of the cluster on it, each with a remedy."""

from __future__ import annotations

import asyncio
from functools import partial

import click

from tenure.backends.base import LeaseBackend, Upkeep
from tenure.cli.checkup import asked, check_cluster, check_leases, unexpected
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json
from tenure.cli.store import ANSWER_WITHIN, Store, as_json, of_leases
from tenure.errors import TenureError
from tenure.model import Finding, Severity


@click.command()
@of_leases
@as_json
def doctor(store: Store, as_json: bool) -> None:
    """Check the store and the cluster, and say what to do.

    Creates and changes nothing. Exit code 1 if there is a problem; warnings alone give 0.

    \b
    Examples:
      tenure doctor
      tenure doctor --url sqlite:////var/lib/app/tenure.db
      tenure doctor --url postgresql://app@db/app --leases redis://cache
      tenure doctor --url redis://cache
      tenure doctor --json | jq '.findings[] | select(.severity != "ok")'
    """
    location, findings = asyncio.run(_examine(store))
    problems = sum(f.severity is Severity.PROBLEM for f in findings)
    warnings = sum(f.severity is Severity.WARNING for f in findings)
    if as_json:
        print_json(
            {
                "store": location,
                "namespace": store.namespace,
                "ok": not problems,
                "findings": [
                    {
                        "check": finding.check,
                        "severity": finding.severity,
                        "text": finding.text,
                        "remedy": finding.remedy,
                    }
                    for finding in findings
                ],
            }
        )
    else:
        _print(location, findings)
        click.echo(f"\n{_total(problems, 'problem')}, {_total(warnings, 'warning')}.")
    if problems:
        raise click.exceptions.Exit(1)


async def _examine(store: Store) -> tuple[str, list[Finding]]:
    findings: list[Finding] = []
    backends: list[LeaseBackend] = []
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            whole, elsewhere = store.backends()
            backends = [backend for backend in (whole, elsewhere) if backend is not None]
            for backend in backends:
                findings += await asked("store", partial(_checks_of, backend), findings, [])
            opened = Opened(whole, elsewhere, store.address)
            try:
                await opened.open(migrate=False)
                look = check_cluster if store.has_schedules else check_leases
                findings += await look(opened)
            finally:
                await opened.close()
    except (TenureError, TimeoutError) as error:
        # Why it cannot be opened was most likely said above, and better.
        if all(f.severity is not Severity.PROBLEM for f in findings):
            text = str(error) or f"the store did not answer within {ANSWER_WITHIN:g} s"
            findings.append(Finding("store", Severity.PROBLEM, text))
    except Exception as error:  # noqa: BLE001 - whatever it is, what was found is to be seen
        findings.append(unexpected("store", error))
    return ", leases in ".join(backend.location for backend in backends), findings


async def _checks_of(backend: LeaseBackend) -> list[Finding]:
    if isinstance(backend, Upkeep):
        return await backend.diagnose()
    text = f"{backend.location} has no checks of its own; what follows holds for every store"
    return [Finding("store", Severity.OK, text)]


def _print(location: str, findings: list[Finding]) -> None:
    page = Page()
    page.line(location, style="bold")
    page.line()
    page.table(
        ["", "CHECK", "FOUND"],
        (
            [
                finding.severity,
                finding.check,
                [finding.text, *([f"→ {finding.remedy}"] if finding.remedy else [])],
            ]
            for finding in findings
        ),
    )


def _total(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
