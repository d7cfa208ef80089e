"""The reference pages say what the code says, no more and no less; every link leads somewhere."""

from __future__ import annotations

import inspect
import logging
import pkgutil
import re
import sys
from dataclasses import MISSING, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import errors, facts
from tenure.errors import ConfigError
from tenure.settings import EVENT_MOST, PAYLOAD_MOST, TTL_LIMITS, Settings
from tests.docs import markdown
from tests.docs.markdown import ROOT, anchors, links, pages, prose, table

DOCS = ROOT / "docs"


def _bare(cell: str) -> str:
    return cell.strip("`")


# -- public names ---------------------------------------------------------------------------------


def test_index_lists_every_public_name() -> None:
    listed = [_bare(row["name"]) for row in table(DOCS / "README.md", "name", "page")]
    assert listed == sorted(tenure.__all__)


@pytest.mark.parametrize("row", table(DOCS / "README.md", "name", "page"), ids=lambda r: r["name"])
def test_public_name_is_explained_on_its_page(row: dict[str, str]) -> None:
    (page,) = re.findall(r"\]\(([^)]+)\)", row["page"])
    assert re.search(rf"\b{_bare(row['name'])}\b", (DOCS / page).read_text())


NOT_NAMED = {"Decorator", "DeliveryPolicy", "Hold", "Sink", "Task", "At", "Cron", "Every", "RRule"}
"""What users neither keep nor annotate: what decorates, what `with` enters, the parts of a Relay;
and the triggers, which are all a Trigger."""


def test_what_public_calls_return_can_be_imported() -> None:
    """Or its base class can."""
    public = {getattr(tenure, name) for name in tenure.__all__}
    calls = {owner: getattr(tenure, owner) for owner in tenure.__all__}
    for owner, value in list(calls.items()):
        if inspect.isclass(value):
            for name, member in inspect.getmembers_static(value):
                called = getattr(member, "__func__", getattr(member, "fget", member))
                calls[f"{owner}.{name}"] = called
    found = {name: _hidden(call, public) for name, call in calls.items() if "._" not in name}
    assert {name: hidden for name, hidden in found.items() if hidden} == {}


def _hidden(called: Any, public: set[Any]) -> set[str]:
    """Classes of ours in what this returns, of which no public one is a base."""
    if not inspect.isfunction(called):
        return set()
    home = sys.modules[called.__module__]
    words = set(re.findall(r"\w+", str(called.__annotations__.get("return", ""))))
    classes = {word: getattr(home, word, None) for word in words - NOT_NAMED}
    return {
        word
        for word, found in classes.items()
        if inspect.isclass(found)
        and found.__module__.startswith("tenure.")
        and not public & {*found.__mro__}
    }


def test_index_leads_to_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    listed |= {(DOCS / "adr" / link).resolve() for link in links(DOCS / "adr" / "README.md")}
    missing = set(DOCS.rglob("*.md")) - listed - {DOCS / "README.md"}
    assert not missing


@pytest.mark.parametrize(
    "value",
    [
        tenure.Schedule,
        tenure.ScheduleSpec,
        tenure.Occurrence,
        tenure.RunRecord,
        tenure.Attempt,
        tenure.LeaseRecord,
        tenure.Event,
        tenure.LoggedEvent,
    ],
)
def test_values_are_documented_field_by_field(value: Any) -> None:
    name = value.__name__
    rows = table(DOCS / "values.md", f"field of `{name}`", "meaning")
    assert [_bare(row[f"field of `{name}`"]) for row in rows] == [f.name for f in fields(value)]


def test_names_for_backend_authors_exist() -> None:
    rows = table(DOCS / "backends.md", "name", "what it has")
    assert len(rows) == 6
    for row in rows:
        module = import_module(_bare(row["name"]))
        for name in re.findall(r"`(\w+)`", row["what it has"]):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_what_pages_call_by_its_full_name_exists() -> None:
    text = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))
    names = set(re.findall(r"`(tenure(?:\.\w+){2,})\(", text))  # SQL functions have two parts
    assert "tenure.web.api.routes" in names
    for name in names:
        assert callable(pkgutil.resolve_name(name)), name


# -- facts ----------------------------------------------------------------------------------------


def _facts(kind: type[facts.Fact] = facts.Fact) -> dict[str, type[facts.Fact]]:
    found = {} if "name" not in vars(kind) or kind is facts.Fact else {kind.name: kind}
    for sub in kind.__subclasses__():
        # Dataclasses with slots are made twice; the first of the two is not in the module.
        if getattr(facts, sub.__name__, None) is sub:
            found |= _facts(sub)
    return found


def test_facts_are_documented_as_they_are() -> None:
    rows = table(DOCS / "facts.md", "fact", "level", "fields", "meaning")
    documented = {
        _bare(row["fact"]): (row["level"], row["fields"]) for row in rows if row["meaning"]
    }
    told = {
        name: (logging.getLevelName(kind.level), ", ".join(f.name for f in fields(kind)))
        for name, kind in _facts().items()
    }
    assert documented == told


def test_facts_named_elsewhere_exist() -> None:
    first_words = {name.split(".")[0] for name in _facts()}
    for page in pages():
        for code in markdown.inline_code(page):
            word = code.split()[0]
            if word.endswith((".py", ".md", ".db")):
                continue
            if re.fullmatch(r"[a-z]+\.[a-z_]+", word) and word.split(".")[0] in first_words:
                assert word in _facts() or _is_attribute(word), f"{markdown.name(page)}: {word}"


def _is_attribute(word: str) -> bool:
    owner, attribute = word.split(".")
    types: dict[str, type] = {"lease": tenure.Lease, "run": tenure.Run}
    return owner in types and hasattr(types[owner], attribute)


# -- settings -------------------------------------------------------------------------------------

SETTINGS = {
    _bare(row["setting"]): row
    for row in table(DOCS / "settings.md", "setting", "default", "rule", "meaning")
}


def test_every_setting_is_documented_with_its_default() -> None:
    said = {name: row["default"] for name, row in SETTINGS.items()}
    derived = {
        "heartbeat": "ttl/5",
        "margin": "ttl/20",
        "lent_connections": "concurrency, at most 5",
    }
    real = {
        field.name: str(field.default) if field.default is not None else derived[field.name]
        for field in fields(Settings)
        if field.default is not MISSING
    }
    assert said == real
    default = Settings()
    assert (default.renew_every, default.safety) == (default.ttl / 5, default.ttl / 20)
    assert (default.lent, Settings(concurrency=3).lent) == (5, 3)


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_obeys_its_rule(name: str) -> None:
    rule = SETTINGS[name]["rule"]
    low, high = TTL_LIMITS
    probes: dict[str, tuple[list[Any], list[Any]]] = {
        "names": ([("mail",)], ["mail", ("",)]),
        "True or False": ([True, False], [1, "no", None]),
        "> 0": ([1], [0, -1]),
        ">= 0": ([0], [-1]),
        "–": ([-1], []),
        f"{low:g} to {high:.0f}": ([low, high], [low - 0.1, high + 1]),
        f"1 to {PAYLOAD_MOST}": ([1, PAYLOAD_MOST], [0, PAYLOAD_MOST + 1]),
        f"1 to {EVENT_MOST}": ([1, EVENT_MOST], [0, EVENT_MOST + 1]),
        f"0 < {name} <= ttl/3": ([5.0], [0, -1, 5.1]),
    }
    good, bad = probes[rule]
    for value in good:
        _with(name, value)
    for value in bad:
        with pytest.raises(ConfigError, match=name):
            _with(name, value)


def _with(name: str, value: Any) -> Settings:
    return replace(Settings(), **{name: value})


# -- errors ---------------------------------------------------------------------------------------


def _errors(kind: type[Exception] = errors.TenureError, depth: int = 0) -> list[tuple[int, str]]:
    found = [(depth, kind.__name__)]
    for sub in kind.__subclasses__():
        if sub.__module__ == errors.__name__:
            found += _errors(sub, depth + 1)
    return found


def test_tree_of_errors_is_drawn_as_it_is() -> None:
    (tree,) = (b.text for b in markdown.blocks(DOCS / "errors.md") if "TenureError" in b.text)
    drawn = [(re.search(r"\w", line), line) for line in tree.splitlines()]
    assert [(m.start() // 4, line[m.start() :]) for m, line in drawn if m] == _errors()


def test_every_error_has_its_row() -> None:
    rows = table(DOCS / "errors.md", "error", "when", "remedy")
    assert [_bare(row["error"]) for row in rows] == [name for _, name in _errors()]
    assert all(row["when"] and row["remedy"] for row in rows)


def test_every_error_is_public() -> None:
    assert {name for _, name in _errors()} <= set(tenure.__all__)


# -- decisions, links -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted((DOCS / "adr").glob("0*.md")), ids=lambda page: page.stem)
def test_decision_has_its_form(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.stem[:4]}: ")
    assert re.search(r"^\*\*Status\*\*: (accepted|replaced by .+)$", text, re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("page", pages(), ids=markdown.name)
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{markdown.name(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{markdown.name(page)}: {link}"


@pytest.mark.parametrize("page", pages(), ids=markdown.name)
def test_lines_are_not_too_long(page: Path) -> None:
    for number, line in enumerate(prose(page).splitlines(), 1):
        assert len(line) <= 110 or line.startswith("|"), f"{markdown.name(page)}:{number}"
