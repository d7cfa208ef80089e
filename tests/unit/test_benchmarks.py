"""The benchmarks work, and say what they should. Timing is never asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figures import Figure

PROMISED = {
    "takeover": "takeover: kill -9 to first firing",
    "handover": "handover: release to successor in office",
    "lateness": "lateness: 1 node, all at once",
    "locks": "locks: acquire + release / bare",
    "idle": "idle: queries of a standby",
    "firing": "firing: time / bare time",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_runs_quickly_and_gives_its_figures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    assert main([name, "--quick", "--directory", str(tmp_path), "--json", str(written)]) == 0

    shown = capsys.readouterr()
    assert PROMISED[name] in shown.out
    assert "targets" in shown.out
    result = json.loads(written.read_text())
    assert {"cores", "Python", "system", "SQLite", "file system"} <= set(result["machine"])
    figures = {figure["what"]: figure for figure in result["benchmarks"][name]}
    assert PROMISED[name] in figures
    for figure in figures.values():
        assert figure["n"] >= 1
        assert 0 <= figure["min"] <= figure["median"] <= figure["p99"] <= figure["max"]
        assert (figure["met"] is None) == (figure["target"] is None)
    for lost in (what for what in figures if what.endswith(("unaccounted for", "not started"))):
        assert figures[lost]["max"] == 0, lost


def test_a_missed_target_is_said_clearly() -> None:
    met = Figure("a", "ms", [1.0, 2.0, 3.0], target=2.0, judged="median")
    missed = Figure("b", "ms", [1.0, 2.0, 3.0], target=2.0)
    free = Figure("c", "/s", [10.0])
    assert (met.met, missed.met, free.met) == (True, False, None)
    assert report.verdict([met, free]) == "All 1 targets met."
    assert report.verdict([met, missed, free]) == "1 of 2 targets MISSED: b."
    assert "| b | 3 | 2 ms | 3 ms | 1 – 3 ms | p99 ≤ 2 ms | **NO** |" in report.markdown(
        [missed], {"cores": "2"}
    )


def test_p99_is_the_nearest_rank() -> None:
    assert Figure("a", "", list(range(1, 201))).p99 == 198
    assert Figure("a", "", list(range(1, 21))).p99 == 20
    assert Figure("a", "", [7.0]).p99 == 7.0


def test_update_fills_in_the_block_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.update(page, "new")
    report.update(page, "newer")
    assert page.read_text() == f"before\n{report.BEGIN}\n\nnewer\n\n{report.END}\nafter\n"


def test_a_page_without_the_marks_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marks\n")
    with pytest.raises(SystemExit) as refused:
        main(["--quick", "--update", str(page)])
    assert refused.value.code == 2
    assert "must have the lines" in capsys.readouterr().err


def test_the_documentation_has_the_marks() -> None:
    report.check_document(Path(__file__).parents[2] / "docs" / "performance.md")


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown: speed; there are takeover" in capsys.readouterr().err
