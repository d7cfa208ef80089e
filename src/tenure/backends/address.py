"""Where a store is, for people: its URL without secrets, and commands that they can paste."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tenure.backends.urls import HIDDEN, is_public, of_sqlite, scheme_of, shown, sqlite_path

_TAKE_LEASES = (
    *("status", "doctor", "prune", "leases", "enqueue", "relay", "events relays", "dashboard"),
    *("schedules run-now", "schedules add", "schedules update", "runs list", "runs show"),
)
"""The commands that have --leases."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program that has the commands of `tenure`, and knows one store without being told."""

    name: str = "tenure"
    url: str | None = field(default=None, repr=False)
    namespace: str = "default"

    @property
    def run(self) -> str:
        """How people start a node."""
        return f"{self.name} run" if self.url is not None else f"{self.name} run MODULE:ATTR"


_spoken = [Program()]


def program() -> Program:
    """What commands in hints begin with, in this process."""
    return _spoken[-1]


def speak_of(given: Program) -> None:
    """This process is another program, such as `manage.py`: hints name what works there."""
    _spoken[:] = [given]


@dataclass(frozen=True, slots=True)
class Address:
    """A store, a namespace in it, and the store of its leases if that is another.

    `url` is None if there is no URL, because the application passed a client.
    """

    url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    leases: str | None = field(default=None, repr=False)
    url_file: str | None = None
    """The file that contains the URL, if that was given instead."""
    leases_file: str | None = None

    def __str__(self) -> str:
        return HIDDEN if self.url is None else shown(self.url)

    @property
    def in_memory(self) -> bool:
        """Is it inside one process, where no command reaches it?"""
        return self.url is not None and scheme_of(self.url) == "memory"

    def command(self, *words: str, name: str | None = None) -> str:
        """A `tenure` command for this store, to paste into a shell anywhere on this machine.

        `words` are ours, such as "leases evict"; `name` is the user's. In place of a URL with a
        password it has the variable or the file that contains it.
        """
        dashed = name is not None and name.startswith("-")  # then it goes last, after --
        named = [] if name is None else [quoted(name)]
        ours = program()
        known = ours.url is not None and self.url in (None, ours.url)
        parts = [ours.name, *words, *([] if dashed else named)]
        parts += [] if known else _option("url", self.url, self.url_file)
        takes_leases = not known and " ".join(words).startswith(_TAKE_LEASES)
        if self.leases is not None and takes_leases:
            parts += _option("leases", self.leases, self.leases_file)
        if self.namespace != ours.namespace and self.url is not None:
            parts += ["--namespace", quoted(self.namespace)]
        return " ".join([*parts, *(["--", *named] if dashed else [])])


NOWHERE = Address()
"""For errors that do not know their store."""


def quoted(word: str) -> str:
    """As one shell word, whatever is in it; control characters are spelled out, as in bash."""
    if word.isprintable():
        return shlex.quote(word)
    inner = "".join(_spelled(character) for character in word)
    return f"$'{inner}'"


def _spelled(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in raw)


def _option(name: str, url: str | None, file: str | None) -> list[str]:
    variable = f"TENURE_{name.upper()}"
    given = os.environ.get(variable)
    if url is not None and scheme_of(url) == "sqlite":
        # Absolute, because it may be pasted in another folder.
        return [f"--{name}", quoted(of_sqlite(sqlite_path(url).absolute()))]
    if url is not None and is_public(url):
        return [f"--{name}", quoted(url)]
    file = file or (None if given else os.environ.get(f"{variable}_FILE"))
    if file:
        return [f"--{name}-file", quoted(str(Path(file).absolute()))]
    if url is not None and given and not _same(given.strip(), url):
        return [f"--{name}", '"$URL"']  # an unset variable: better an error than another store
    return [f"--{name}", f'"${variable}"']


def _same(one: str, other: str) -> bool:
    """The same store, whatever the password? If a URL is not shown, only an equal one is."""
    seen = shown(one)
    return one == other or (seen == shown(other) and not seen.endswith(HIDDEN))
