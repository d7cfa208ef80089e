"""The rights of a user of Redis: those of the commands that are used, and no others."""

from __future__ import annotations

import re
from importlib.resources import files

from tenure.backends.redis import rights
from tenure.backends.redis.keys import scripts

_CALL = re.compile(r"\b(?:redis\.p?call|ask|change)\(\s*'([A-Z]+)'")
TO_RUN_THEM = {"EVALSHA", "SCRIPT", "PING"}
"""And what asks whether the line is alive."""


def _used() -> set[str]:
    folder = files("tenure.backends.redis") / "lua"
    return {
        command
        for file in folder.iterdir()
        for command in _CALL.findall(file.read_text(encoding="utf-8"))
    }


def test_a_node_needs_what_the_scripts_use_and_no_more() -> None:
    assert {command[0] for command in rights.NEEDED} == _used() | TO_RUN_THEM


def test_a_reader_has_no_command_that_a_node_has_not() -> None:
    assert set(rights.READ) < {command[0] for command in rights.NEEDED}


def test_every_call_of_a_script_is_found() -> None:
    """A command that is not written out where it is called would be missed above."""
    for name, text in scripts().items():
        calls = set(re.findall(r"redis\.p?call\(\s*([^'),]+)", text))
        assert calls <= {"...", "command"}, name  # which ask and change are called with
