"""The marks of a copy, as a store keeps them among its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from tenure.backends.base.copying import CopyMark, Role
from tenure.errors import StoreError
from tenure.model import Finding, Severity


def key_of(role: Role) -> str:
    return f"copy_{role}"


def written(mark: CopyMark) -> str:
    return json.dumps(asdict(mark))


def read(text: str | None) -> CopyMark | None:
    if text is None:
        return None
    try:
        return CopyMark(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise StoreError(
            "the record of a copy in the table `meta` cannot be read. If it was edited by hand,"
            " restore it; if not, run the version of Tenure that began the copy."
        ) from error


def told(meta: Mapping[str, str]) -> CopyMark | None:
    """The mark to tell users about: a store that has moved on is no longer only a target."""
    return read(meta.get(key_of("source"))) or read(meta.get(key_of("target")))


def finding(meta: Mapping[str, str]) -> list[Finding]:
    """For `tenure doctor`; nothing about a store that is in use as usual."""
    try:
        mark = told(meta)
    except StoreError as error:
        return [Finding("copy", Severity.PROBLEM, str(error))]
    if mark is None or mark.warning is None:
        return []
    text, _, remedy = mark.warning.partition(": ")
    return [Finding("copy", Severity.PROBLEM, text, f"{remedy[0].upper()}{remedy[1:]}.")]
