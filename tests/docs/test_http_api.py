"""docs/http-api.md has every route, with what it does and takes, and every code of an error."""

from __future__ import annotations

import re

from tenure.web.api.operations import TABLE
from tenure.web.api.table import Operation, Version
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "http-api.md").read_text()


def _takes(operation: Operation) -> str:
    names = [f"`?{name}`" for name in operation.query.__struct_fields__] if operation.query else []
    names += [f"`{name}`" for name in operation.body.__struct_fields__] if operation.body else []
    names += ["If-Match"] * (operation.version is not Version.NONE)
    names += ["Idempotency-Key"] * operation.idempotent
    return ", ".join(names)


def test_page_has_the_whole_table_and_nothing_else() -> None:
    routes = re.findall(r"^\| `([A-Z]+ /.*?)` \| (.*?) \| (.*?) ?\|$", PAGE, re.MULTILINE)
    wanted = [(f"{each.method} {each.path}", each.summary, _takes(each)) for each in TABLE]
    assert routes == wanted


def test_page_has_every_code_of_an_error() -> None:
    rows = re.findall(r"^\| \d+ \|(.*?)\|", PAGE, re.MULTILINE)
    told = set(re.findall(r"`(\w+)`", "".join(rows)))
    made = set[str]()
    for module in sorted((ROOT / "src/tenure/web/api").glob("*.py")):
        text = module.read_text()
        made |= set(re.findall(r'Problem\(\s*HTTPStatus\.\w+,\s*"(\w+)"', text))
        made |= set(re.findall(r'conflict\([^)]*",\s*"(\w+)"\s*,?\s*\)', text))
    guard = (ROOT / "src/tenure/web/security/guard.py").read_text()
    made |= set(re.findall(r'"(\w+)",?\s*\)\n', "".join(_calls(guard))))
    assert told == made | {"conflict"}


def _calls(text: str) -> list[str]:
    """Where the guard refuses a request."""
    return re.findall(r"(?:raise Refused|answer = problem)\(.*?\)\n", text, re.DOTALL)
