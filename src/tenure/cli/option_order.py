"""Options that many commands have may also stand before the command: `tenure --url … status`."""

from __future__ import annotations

from collections.abc import Sequence

_WITH_VALUE = ("--url", "--url-file", "--leases", "--leases-file", "--namespace", "--app")
_FLAGS = ("--json",)
_GROUPS = ("schedules", "runs", "events", "leases", "import")
"""A command of these follows their name."""


def behind_the_command(args: Sequence[str]) -> list[str]:
    """The same words, with those options last: there the command itself reads them, and refuses
    those that it does not have."""
    words, options, place = list[str](), list[str](), 0
    while place < len(args):
        word = args[place]
        name, equals, _ = word.partition("=")
        if name in _WITH_VALUE and not equals:
            options += args[place : place + 2]
            place += 2
            continue
        if name not in _WITH_VALUE and word not in _FLAGS:
            if word.startswith("-"):
                break  # the command's own, or --help
            words.append(word)
            place += 1
            if word not in _GROUPS or len(words) > 1:
                break
            continue
        options.append(word)
        place += 1
    rest = list(args[place:])
    end = rest.index("--") if "--" in rest else len(rest)
    return [*words, *rest[:end], *options, *rest[end:]]
