"""`manage.py tenure`: the command `tenure`, for the scheduler and the store of the project."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError
from django.utils.autoreload import get_child_arguments

from tenure.backends.address import Program, speak_of
from tenure.cli import main
from tenure.contrib.django import conf, store
from tenure.contrib.django.project import made

TARGET = "tenure.contrib.django:scheduler"


class Command(BaseCommand):
    """All of `tenure`'s commands. Their store is the project's, unless --url names another."""

    help = "Tenure: run the scheduler, see who leads and what is due, change schedules."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        # Past Django's own parser, which would take options such as --help for itself.
        program, name, *arguments = argv
        self._tenure(f"{_program(program)} {name}", _without_djangos(arguments))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        self._tenure(f"{_program(prog_name)} {subcommand}", ["--help"])

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *, arguments: list[str], **_: Any) -> None:
        """`call_command("tenure", "status")`."""
        try:
            with redirect_stdout(self.stdout):
                self._tenure("tenure", list(arguments))
        except SystemExit as end:
            if end.code:
                what = " ".join(["tenure", *arguments])
                raise CommandError(f"{what}: exit code {end.code}") from None

    def _tenure(self, program: str, arguments: list[str]) -> None:
        scheduler = made()
        if arguments and arguments != ["--help"]:
            # In the environment of this process alone: all users can read arguments.
            os.environ.pop("TENURE_URL_FILE", None)
            os.environ["TENURE_URL"] = url = store.url()
            if program != "tenure":  # not a part of another program, by call_command()
                speak_of(Program(program, url, scheduler.namespace))
            os.environ.pop("TENURE_LEASES_FILE", None)
            os.environ.pop("TENURE_LEASES", None)
            if leases := conf.given().get("LEASES"):
                os.environ["TENURE_LEASES"] = leases
        if arguments[:1] == ["run"] and not {"-h", "--help"} & set(arguments):
            arguments = ["run", TARGET, *arguments[1:]]
        main.main(
            arguments,
            prog_name=program,
            obj=get_child_arguments() if sys.argv[1:2] == ["tenure"] else None,
            default_map=_defaults(arguments, scheduler.namespace),
        )


def _program(path: str) -> str:
    """As people type it, if they are in the project's folder."""
    name = Path(path).name
    if name == "__main__.py":
        return "python -m django"
    return f"python {name}" if name.endswith(".py") else name


def _without_djangos(arguments: list[str]) -> list[str]:
    """Without --settings and --pythonpath, which Django has followed already."""
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in ("--settings", "--pythonpath"):
            next(words, None)
        elif not word.startswith(("--settings=", "--pythonpath=")):
            left.append(word)
    return left


def _defaults(arguments: list[str], namespace: str) -> dict[str, Any]:
    """The project's namespace and code, for the command that was asked for."""
    words = [word for word in arguments if not word.startswith("-")]
    context = click.Context(main)
    command = main.get_command(context, words[0]) if words else None
    return {} if command is None else {words[0]: _of(command, context, namespace)}


def _of(command: click.Command, context: click.Context, namespace: str) -> dict[str, Any]:
    if isinstance(command, click.Group):
        names = command.list_commands(context)
        found = {name: command.get_command(context, name) for name in names}
        return {n: _of(each, context, namespace) for n, each in found.items() if each is not None}
    known = {"namespace": namespace, "app": TARGET}
    return {p.name: known[p.name] for p in command.params if p.name in known}
