"""From MODULE:ATTR to a scheduler, or a precise word on why not."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import tenure
from tenure.backends.urls import without_passwords
from tenure.cli.errors import Failed
from tenure.printable import lines
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.scheduler.scheduler import Scheduler

_OURS = str(Path(tenure.__file__).parent) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(of) + os.sep for of in ("stdlib", "purelib", "platlib"))


def load_any(target: str) -> Any:
    """Whatever MODULE:ATTR is."""
    module_name, attribute = _split(target)
    module = _import(module_name)
    try:
        return attrgetter(attribute)(module)
    except AttributeError:
        raise Failed(f"{module_name} has no {attribute!r}.") from None


def load(target: str, *, whole_traceback: bool | None = None) -> Scheduler | AsyncScheduler:
    """`whole_traceback`: None for commands that have no option that asks for it."""
    module_name, attribute = _split(target)
    module = _import(module_name, whole_traceback)
    try:
        found = attrgetter(attribute)(module)
    except AttributeError:
        raise Failed(f"{module_name} has no {attribute!r}. {_schedulers(module)}") from None
    if not isinstance(found, Scheduler | AsyncScheduler):
        kind = type(found).__name__
        raise Failed(
            f"{target} is of type {kind}, not a Scheduler or AsyncScheduler. {_schedulers(module)}"
        )
    return found


def _split(target: str) -> tuple[str, str]:
    module, colon, attribute = target.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if colon and all(part.isidentifier() for part in parts) and not module.endswith(".py"):
        return module, attribute
    hint = ""
    path = module.removesuffix(".py")
    if path != module or "/" in module:
        dotted = path.strip("./").replace("/", ".")
        hint = f" Name the module, not its file: {dotted}:{attribute or 'scheduler'}"
    elif not colon:
        hint = f" Perhaps {module}:scheduler?"
    raise click.UsageError(f"{target!r} is not of the form MODULE:ATTR.{hint}")


def _import(name: str, whole_traceback: bool | None = None) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, even SystemExit
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, name):
            raise Failed(
                f"there is no module {error.name!r} in {here} or elsewhere on the Python path."
                " Run the command in the folder that has it, or set PYTHONPATH."
            ) from None
        if whole_traceback:
            text = "".join(traceback.format_exception(error))
            click.echo(lines(without_passwords(text)), err=True)
        hint = " (--log-level debug shows the whole traceback)" if whole_traceback is False else ""
        cause = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        cause = without_passwords(cause)
        if isinstance(error, SystemExit):
            cause = f"it ended the process ({error!r})"
        raise Failed(f"importing {name!r} failed at {_place(error)}: {cause}{hint}") from None


def _is_part(missing: str | None, name: str) -> bool:
    """Is the missing one what was asked for, or a package it is in, not something it imports?"""
    return missing is not None and (name == missing or name.startswith(missing + "."))


def _place(error: BaseException) -> str:
    """The file and line to look at: the innermost of the user's, not of Tenure, of the importer, or
    of what Python generates, which has no file; nor of a library, unless there is no other."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<"))
        and f"{os.sep}importlib{os.sep}" not in frame.filename
    ]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "an unknown place"


def _schedulers(module: ModuleType) -> str:
    names = sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, Scheduler | AsyncScheduler)
    )
    where = getattr(module, "__file__", None) or "it"
    if not names:
        return f"There is no scheduler in {where}: it needs one, such as scheduler = Scheduler()."
    return "Schedulers there: " + ", ".join(f"{module.__name__}:{name}" for name in names) + "."
