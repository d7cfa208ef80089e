"""docs/cli.md knows every command and every option, and every command explains itself."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tenure.cli import main
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()


def commands(
    command: click.Command = main, path: str = "tenure"
) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None, name
        yield from commands(found, f"{path} {name}")


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_command_and_its_options_are_on_the_page(path: str) -> None:
    section = PAGE.partition(f"\n## {' '.join(path.split()[:2])}\n")[2].partition("\n## ")[0]
    everywhere = PAGE.partition("\n## ")[0]
    assert path in section
    for option in COMMANDS[path].params:
        if isinstance(option, click.Option):
            name = option.opts[0]
            assert name in section + everywhere, f"{path} {name} is not documented"


@pytest.mark.parametrize("path", COMMANDS)
def test_command_and_its_options_have_help(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{path} {option.opts[0]}"


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != "tenure demo"])
def test_help_has_an_example(path: str) -> None:
    help_text = COMMANDS[path].help or ""
    assert "Example" in help_text
    assert path in help_text


@pytest.mark.parametrize("path", [*COMMANDS, "tenure", "tenure runs", "tenure schedules"])
def test_help_fits_a_terminal_of_80_columns(path: str) -> None:
    told = CliRunner().invoke(main, [*path.split()[1:], "--help"], terminal_width=80)
    assert [line for line in told.output.splitlines() if len(line) > 80] == []
