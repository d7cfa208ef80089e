"""SQL lives in .sql files; this reads it: statements under `-- name: …` lines."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"\s*--.*")
_INDENT = re.compile(r"\n\s*")


@lru_cache(maxsize=64)
def load(package: str, file: str) -> dict[str, str]:
    """The named statements of a file of that package, without what is for readers only: drivers
    and servers read them again and again, and remember only those that are not too long."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: _plain(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _plain(text: str) -> str:
    return _INDENT.sub("\n", _COMMENT.sub("", text)).strip().rstrip(";")


@lru_cache(maxsize=8)
def migrations(package: str) -> list[tuple[int, str, str]]:
    """The migrations of a package in their order: number, name, SQL."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found)


def beyond(prefix: str) -> str:
    """The first text, in the order of code points, after all that begin with the prefix."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code == 0xD800:
            code = 0xE000  # what is between is no text
        if code <= 0x10FFFF:
            return prefix[:place] + chr(code)
    return "\U0010ffff" * 250
