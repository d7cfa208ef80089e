"""Where a store is, for people: its URL without secrets, and commands that they can paste."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tenure.urls import HIDDEN, is_public, of_sqlite, scheme_of, shown, sqlite_path

_TAKE_LEASES = (
    *("status", "doctor", "prune", "leases"),
    *("schedules run-now", "schedules add", "schedules update"),
)
"""The commands that have --leases."""


@dataclass(frozen=True, slots=True)
class Address:
    """A store, a namespace in it, and the place of its leases if that is another.

    `url` is None if it is not known as a URL: a client was handed in.
    """

    url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    leases: str | None = field(default=None, repr=False)
    url_file: str | None = None
    """The file that has the URL, if that was named in place of it."""
    leases_file: str | None = None

    def __str__(self) -> str:
        return HIDDEN if self.url is None else shown(self.url)

    @property
    def in_memory(self) -> bool:
        """Is it inside one process, where no command reaches it?"""
        return self.url is not None and scheme_of(self.url) == "memory"

    def command(self, *words: str, name: str | None = None) -> str:
        """A command of ours on this store, to be pasted into a shell anywhere on this machine.

        `words` are ours, such as "leases evict"; `name` is the user's. A URL with a password is
        not in it: the variable or the file that has it is.
        """
        dashed = name is not None and name.startswith("-")  # then only the last word is no option
        named = [] if name is None else [quoted(name)]
        parts = ["tenure", *words, *([] if dashed else named)]
        parts += _option("url", self.url, self.url_file)
        if self.leases is not None and " ".join(words).startswith(_TAKE_LEASES):
            parts += _option("leases", self.leases, self.leases_file)
        if self.namespace != "default":
            parts += ["--namespace", quoted(self.namespace)]
        return " ".join([*parts, *(["--", *named] if dashed else [])])


NOWHERE = Address()
"""Of a store that is not known here."""


def quoted(word: str) -> str:
    """As one word of a shell, whatever is in it; control characters spelled out, as bash does."""
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
        # Absolute: whoever pastes it may be in another folder.
        return [f"--{name}", quoted(of_sqlite(sqlite_path(url).absolute()))]
    if url is not None and is_public(url):
        return [f"--{name}", quoted(url)]
    file = file or (None if given else os.environ.get(f"{variable}_FILE"))
    if file:
        return [f"--{name}-file", quoted(str(Path(file).absolute()))]
    if url is not None and given and shown(given.strip()) != shown(url):
        return [f"--{name}", '"$URL"']  # rather an error than another store
    return [f"--{name}", f'"${variable}"']
