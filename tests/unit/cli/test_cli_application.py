"""MODULE:ATTR becomes a scheduler, or a message that names module, cause and place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tenure import AsyncScheduler, Scheduler
from tenure.cli.application import load
from tenure.cli.errors import Failed

TWO = """
from types import SimpleNamespace
from tenure import AsyncScheduler, Scheduler
first, second = Scheduler(), AsyncScheduler()
box = SimpleNamespace(inner=second)
def function(): ...
"""

TWINS = """import tenure
tasks = tenure.Tasks()
@tasks.task
def a(): ...
tasks.task(name="a")(print)
"""

WRONG_ARGUMENT = """from tenure import Tasks, every
def a(size): ...
Tasks().task(every(hours=1), kwargs={"colour": 1})(a)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("probe:first", Scheduler),
        ("probe:second", AsyncScheduler),
        ("probe:box.inner", AsyncScheduler),
    ],
)
def test_scheduler_is_found(folder: Path, target: str, kind: type) -> None:
    (folder / "probe.py").write_text(TWO)
    assert isinstance(load(target), kind)


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("x = 1\nprint(y)\n", 2, "NameError: name 'y' is not defined"),
        ("x = 1\n\ndef f(:\n", 3, "SyntaxError: invalid syntax"),
        ("import no_such_library\n", 1, "No module named 'no_such_library'"),
        ("import sys\nsys.exit('no')\n", 2, "it ended the process (SystemExit('no'))"),
        ("import json\n\njson.loads('{')\n", 3, "JSONDecodeError"),
        ("from tenure import every\n\nevery(seconds=0)\n", 3, "it must be greater than 0"),
        ("from tenure import cron\n\ncron('61 7 * * *')\n", 3, "the minute is wrong: '61'"),
        ("import tenure\ntenure.Scheduler('mysql://x')\n", 2, "unknown URL scheme 'mysql'"),
        (TWINS, 5, "two tasks are named 'a'"),
        (WRONG_ARGUMENT, 3, "colour"),
    ],
    ids=[
        "name",
        "syntax",
        "import",
        "exit",
        "library",
        "interval",
        "cron",
        "scheme",
        "twins",
        "argument",
    ],
)
def test_failed_import_names_module_cause_and_place(
    folder: Path, text: str, line: int, cause: str
) -> None:
    (folder / "probe.py").write_text(text)
    with pytest.raises(Failed) as caught:
        load("probe:scheduler")
    message = caught.value.message
    assert message.startswith(f"importing 'probe' failed at {folder}/probe.py:{line}: ")
    assert cause in message
    assert "--log-level" not in message  # which only `tenure run` has
    with pytest.raises(Failed, match="--log-level debug shows the whole traceback"):
        load("probe:scheduler", whole_traceback=False)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("nowhere:scheduler", "there is no module 'nowhere'"),
        ("probe.inner:scheduler", "there is no module 'probe.inner'"),
        ("probe:third", "probe has no 'third'. Schedulers there: probe:first, probe:second."),
        ("probe:function", "is of type function, not a Scheduler"),
        ("empty:scheduler", "There is no scheduler in"),
    ],
)
def test_what_is_not_there_or_no_scheduler(folder: Path, target: str, expected: str) -> None:
    (folder / "probe.py").write_text(TWO)
    (folder / "empty.py").write_text("")
    with pytest.raises(Failed) as caught:
        load(target)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("app", "Perhaps app:scheduler?"),
        ("app.py:jobs", "Name the module, not its file: app:jobs"),
        ("shop/jobs.py", "Name the module, not its file: shop.jobs:scheduler"),
        ("app:", "not of the form"),
        (":scheduler", "not of the form"),
        ("app:one two", "not of the form"),
    ],
)
def test_wrong_form_is_wrong_usage(target: str, hint: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        load(target)
    assert hint in caught.value.message
