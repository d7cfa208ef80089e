"""The documentation as data: its pages, code blocks, tables, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(.*)$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A code block: fenced, with its language and what follows it; or indented, without."""

    page: Path
    line: int
    """Of its first line of code."""
    language: str
    options: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page of the repository that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    return [*_fenced(page), *_indented(page)]


def _fenced(page: Path) -> Iterator[Block]:
    info: str | None = None
    begun, lines = 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and info is None:
            info, begun, lines = fence[1].strip(), number + 1, []
        elif fence and info is not None:
            language, _, options = info.partition(" ")
            yield Block(page, begun, language, options, "\n".join(lines) + "\n")
            info = None
        elif info is not None:
            lines.append(line)
    assert info is None, f"{name(page)}:{begun - 1}: this code block has no end"


def _indented(page: Path) -> Iterator[Block]:
    before, lines, begun = "", list[str](), 0
    for number, line in enumerate([*prose(page).splitlines(), ""], 1):
        if line.startswith("    ") and (lines or not before.strip()):
            begun = begun if lines else number
            lines.append(line[4:])
        elif lines:
            yield Block(page, begun, "", "", "\n".join(lines) + "\n")
            lines = []
        before = line


def prose(page: Path) -> str:
    """The page with its fenced code blanked out, so that line numbers stay."""
    result, inside = list[str](), False
    for line in page.read_text().splitlines():
        fence = _FENCE.match(line)
        inside ^= fence is not None
        result.append("" if inside or fence else line)
    return "\n".join(result)


def inline_code(page: Path) -> list[str]:
    return _CODE.findall(prose(page))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Headings in the form in which links name them."""
    found = set()
    for line in prose(page).splitlines():
        if line.startswith("#"):
            heading = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(heading.replace(" ", "-"))
    return found


def table(page: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of all tables of a page that have exactly these columns."""
    rows = list[dict[str, str]]()
    header: list[str] = []
    for line in [*prose(page).splitlines(), ""]:
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not header:
            header = cells
        elif header == list(columns) and not set(line) <= set("|- "):
            assert len(cells) == len(header), f"{name(page)}: {line}"
            rows.append(dict(zip(header, cells, strict=True)))
    return rows
