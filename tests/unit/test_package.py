"""What `import tenure` gives, and what it costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import tenure
from tenure.model.version import VERSION

ROOT = Path(__file__).parents[2]


def test_every_name_is_there() -> None:
    assert set(tenure.__all__) == set(tenure._WHERE)
    assert tenure.__all__ == sorted(tenure.__all__)
    assert set(tenure.__all__) <= set(dir(tenure))
    for name, module in tenure._WHERE.items():
        assert getattr(tenure, name) is getattr(import_module(module), name)


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (tenure.Scheduler.consumer, {"Consumer"}),
        (tenure.AsyncScheduler.consumer, {"AsyncConsumer"}),
        (tenure.Consumer.__iter__, {"Batch"}),
        (tenure.Consumer.take, {"LoggedEvent"}),
        (tenure.Batch.__iter__, {"LoggedEvent"}),
        (tenure.AsyncConsumer.__aiter__, {"AsyncBatch"}),
        (tenure.AsyncConsumer.take, {"LoggedEvent"}),
        (tenure.AsyncBatch.__iter__, {"LoggedEvent"}),
    ],
)
def test_what_consumers_return_is_public(method: Callable[..., object], names: set[str]) -> None:
    returned = set(re.findall(r"\w+", method.__annotations__["return"]))
    assert returned & set(tenure.__all__) == names


def test_no_file_is_longer_than_400_lines() -> None:
    files = [file for file in (ROOT / "src").rglob("*.py") if file.read_text().count("\n") > 400]
    assert files == []


def test_every_package_says_what_lives_in_it() -> None:
    packages = [file.parent for file in (ROOT / "src").rglob("__init__.py")]
    assert [p.name for p in packages if not (p / "__init__.py").read_text().startswith('"""')] == []


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'tenure' has no attribute 'Shceduler'"):
        _ = tenure.Shceduler


def test_version_is_that_of_the_package() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert told["project"]["version"] == VERSION


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        ("import tenure", {"asyncio", "tenure.errors"}),
        ("from tenure import Leases", {"importlib.metadata", "tenure.scheduler.scheduler"}),
        ("from tenure import Scheduler", {"importlib.metadata", "click", "sqlite3", "psycopg"}),
        ("from tenure.cli import main", {"asyncio", "rich", "tenure.node", "tenure.triggers"}),
        ("import tenure.cli.status", {"importlib.metadata", "tenure.node.node", "tenure.triggers"}),
    ],
)
def test_nothing_is_imported_that_is_not_used(statement: str, without: set[str]) -> None:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(done.stdout.split()) & without == set()
