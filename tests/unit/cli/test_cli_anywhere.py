"""Options such as --url before or after the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tenure.cli import main
from tenure.cli.option_order import behind_the_command


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--url X status", "status --url X"),
        ("--url=X --json status", "status --url=X --json"),
        ("--namespace a schedules list --limit 5", "schedules list --limit 5 --namespace a"),
        ("schedules --url X list", "schedules list --url X"),
        ("schedules list --url X", "schedules list --url X"),
        ("--url X enqueue a -- b", "enqueue a --url X -- b"),
        ("--url X runs show 7", "runs show 7 --url X"),
        ("--help", "--help"),
        ("status --json", "status --json"),
        ("--url", "--url"),
        ("", ""),
    ],
)
def test_they_follow_the_command(given: str, meant: str) -> None:
    assert behind_the_command(given.split()) == meant.split()


@pytest.mark.parametrize("words", ["--url {} schedules list", "schedules --url {} list"])
def test_the_command_is_the_same(words: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    assert CliRunner().invoke(main, ["--url", url, "migrate"]).exit_code == 0
    result = CliRunner().invoke(main, words.format(url).split())
    assert result.exit_code == 0, result.output


def test_a_command_without_that_option_says_so() -> None:
    result = CliRunner().invoke(main, ["--url", "sqlite:///a.db", "demo"])
    assert result.exit_code == 2
    assert "No such option" in result.output
