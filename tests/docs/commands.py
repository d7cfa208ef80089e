"""Commands that the pages show: they exist, with these options."""

from __future__ import annotations

import os
from functools import cache

import click
import uvicorn

from tenure.cli import main
from tests.docs.markdown import ROOT

PROGRAMS: dict[str, click.Command] = {"tenure": main, "uvicorn": uvicorn.main}


def check(words: list[str]) -> None:
    program, *arguments = words
    if program.startswith("scripts/"):
        assert os.access(ROOT / program, os.X_OK), f"{program} is not a script"
    elif program == "python":
        assert (ROOT / arguments[0]).is_file(), f"{arguments[0]} does not exist"
    else:
        assert program in PROGRAMS, f"{program} is nothing that these pages are about"
        _check_options(program, PROGRAMS[program], arguments)


def _check_options(program: str, command: click.Command, arguments: list[str]) -> None:
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        word = arguments.pop(0)
        for name in word.split("|"):
            assert name in _names(command), f"`{context.info_name} {name}` does not exist"
        found = command.get_command(context, word.split("|")[0])
        assert found is not None
        command, context = found, click.Context(found, info_name=f"{context.info_name} {word}")
    known = {option for parameter in command.params for option in parameter.opts}
    given = {argument for argument in arguments if argument.startswith("--")}
    assert given <= known | {"--help"}, f"`{context.info_name}` has no {sorted(given - known)}"


@cache
def _names(group: click.Group) -> tuple[str, ...]:
    return tuple(group.list_commands(click.Context(group)))
