"""SQL lives in .sql files; this reads it: statements under `-- name: …` lines."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@lru_cache(maxsize=64)
def load(package: str, file: str) -> dict[str, str]:
    """The named statements of a file of that package."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {
        name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


@lru_cache(maxsize=8)
def migrations(package: str) -> list[tuple[int, str, str]]:
    """The migrations of a package in their order: number, name, SQL."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found)
