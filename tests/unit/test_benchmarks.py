"""The benchmarks work, and say what they should. Timing is never asserted."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import document, report
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figures import Figure, Say
from benchmarks.processors import Shares, Stretch, busy, stolen
from benchmarks.stores import STORES, Store

PROMISED = {
    "takeover": "takeover: kill -9 to first firing",
    "restart": "restart: kill -9 to its run begun again",
    "freeze": "frozen: SIGSTOP to first firing, ttl 2 s",
    "cut": "cut off: line swallows all to first firing, ttl 2 s",
    "handover": "handover: release to successor in office",
    "beat": "beat: kill -9 to the next message, Tenure",
    "lateness": "lateness: 1 node, all at once",
    "locks": "locks: acquire + release / ",
    "idle": "idle: queries of a standby",
    "firing": "firing: Tenure / bare statements, 10 % distinct",
    "many": "many: a tick, 200 stored / 20 stored",
    "weekend": "weekend: 100 schedules caught up",
    "adding": "adding: 500 schedules in one call",
    "backlog": "backlog: claim beside 22 of one lock key in two priorities, one claimed / nothing",
    "cost": "cost: fired by 50, claimed by 20, claim + finish / fire",
    "crowd": "crowd: 2 nodes, kill -9 to first firing",
    "executed": "executed: share of memory",
    "transactional": "transactional: tasks that do nothing / bare",
    "events": "events: relayed / bare producer",
    "observe": "observe: executed, share",
    "pages": "pages: /schedules?facet=failing",
    "memory": "memory: of that, grown in the last four fifths",
    "steady": "steady: 0 minutes at 100 a second, growth of tables a minute",
    "paths": "paths: cron backwards: cronsim / ours",
    "startup": "startup: import tenure, beyond that",
}
PROCESSORS = {"busy before", "stolen by the host"} if sys.platform == "linux" else set()
FACTS = {
    "sqlite": {"SQLite", "file system"},
    "postgres": {"PostgreSQL", "psycopg", "file system"},
    "redis": {"Valkey", "redis-py"},
}
CASES = {
    # Each benchmark once, and everything that a store does in its own way.
    "sqlite": [name for name in BENCHMARKS if name not in {*STORES["sqlite"].skips, "beside"}],
    "postgres": [
        *("takeover", "cut", "locks", "idle", "firing", "many", "paths"),
        *("backlog", "cost", "crowd", "steady", "transactional", "events"),
    ],
    "redis": ["handover", "freeze", "locks"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "name"), [(store, name) for store in STORES for name in CASES[store]]
)
def test_each_runs_quickly_and_gives_its_figures(
    store: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    assert main([name, "--store", store, "--quick", "--json", str(written)]) == 0

    shown = capsys.readouterr()
    assert PROMISED[name] in shown.out
    assert "targets" in shown.out
    assert "NO REAL FIGURES" in shown.out
    result = json.loads(written.read_text())[store]
    assert {"cores", "Python", "system"} | PROCESSORS | FACTS[store] <= set(result["machine"])
    figures = {figure["what"]: figure for figure in result["benchmarks"][name]}
    assert any(what.startswith(PROMISED[name]) for what in figures)
    for figure in figures.values():
        assert figure["n"] >= 1
        assert 0 <= figure["min"] <= figure["median"] <= figure["p99"] <= figure["max"]
        assert (figure["met"] is None) == (figure["target"] is None)
    none = ("unaccounted for", "not started", "started twice")
    for lost in (what for what in figures if what.endswith(none)):
        assert figures[lost]["max"] == 0, lost


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"])
def test_another_checkout_is_measured_in_turns(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(Path(__file__).parents[2])
    assert main(["beside", "--store", store, "--quick", "--beside", root]) == 0
    shown = capsys.readouterr().out
    for what in ("100 fired", "100 executed", "20 tasks each second, p99 late"):
        for of in ("now", "before", "now / before"):
            assert f"beside: {what}, {of} " in shown


def test_beside_wants_a_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["beside", "--quick"]) == 0
    assert "left out: --beside says with what" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["beside", "--quick", "--beside", str(tmp_path)])
    assert "is no checkout of Tenure" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_nobody_is_inside_a_write_while_a_leader_is_frozen(kind: str) -> None:
    with STORES[kind]() as store, store.place() as place:
        path = place.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0)) as connection:
            connection.execute("CREATE TABLE written (n)")
            with (
                store.no_write(place),
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                connection.execute("INSERT INTO written VALUES (1)")
            connection.execute("INSERT INTO written VALUES (1)")
            connection.rollback()


def test_what_says_nothing_about_a_store_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cut", "--quick"]) == 0
    assert "sqlite cut: left out: there is no network to a file" in capsys.readouterr().err


def test_one_that_breaks_takes_none_of_the_others_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(store: Store, quick: bool, say: Say) -> list[Figure]:
        raise TimeoutError("nobody leads")

    def whole(store: Store, quick: bool, say: Say) -> list[Figure]:
        return [Figure("whole", "ms", [1.0])]

    page = _page(tmp_path)
    monkeypatch.setattr("benchmarks.__main__.BENCHMARKS", {"broken": broken, "whole": whole})
    assert main(["--update", str(page), "--json", str(tmp_path / "figures.json")]) == 1
    shown = capsys.readouterr()
    assert "whole" in shown.out
    assert "nobody leads" in shown.err
    assert "FAILED, and not in the tables: sqlite broken" in shown.err
    assert "| whole | 1 | 1 ms | 1 ms | 1 – 1 ms | – | – |" in page.read_text()
    assert "| broken" not in page.read_text()
    assert "whole" in (tmp_path / "figures.json").read_text()


def test_a_missed_target_is_said_clearly() -> None:
    met = Figure("a", "ms", [1.0, 2.0, 3.0], target=2.0, judged="median")
    missed = Figure("b", "ms", [1.0, 2.0, 3.0], target=2.0)
    free = Figure("c", "/s", [10.0])
    assert (met.met, missed.met, free.met) == (True, False, None)
    fast = Figure("d", "/s", [10.0, 20.0, 30.0], target=20.0, judged="median", least=True)
    slow = Figure("e", "/s", [10.0], target=20.0, least=True)
    assert (fast.met, slow.met) == (True, False)
    assert "| median ≥ 20/s | yes |" in report.markdown(report.rows([fast]), {"cores": "2"})
    assert "| ≥ 20/s | **NO** |" in report.markdown(report.rows([slow]), {"cores": "2"})
    assert report.verdict(report.rows([met, free])) == "All 1 targets met."
    assert report.verdict(report.rows([met, missed, free])) == "1 of 2 targets MISSED: b."
    assert "| b | 3 | 2 ms | 3 ms | 1 – 3 ms | p99 ≤ 2 ms | **NO** |" in report.markdown(
        report.rows([missed]), {"cores": "2"}
    )


def test_p99_is_the_nearest_rank() -> None:
    assert Figure("a", "", list(range(1, 201))).p99 == 198
    assert Figure("a", "", list(range(1, 21))).p99 == 20
    assert Figure("a", "", [7.0]).p99 == 7.0


def _page(folder: Path) -> Path:
    page = folder / "page.md"
    blocks = [
        f"{document.BEGIN.format(store=store)}\nold\n{document.END.format(store=store)}\n"
        for store in STORES
    ]
    page.write_text("before\n" + "between\n".join(blocks) + "after\n")
    return page


FOUND = {"cores": "2", "redis-py": "8.1.0"}


def _update(page: Path, day: str, *figures: Figure, share: str = "1.0%", **facts: str) -> None:
    """All of one benchmark."""
    name = document.NAMES.get(figures[0].what.partition(":")[0], figures[0].what.partition(":")[0])
    stolen = {"stolen by the host": f"{share} of the time ({name} {share})"}
    about = {**FOUND, **facts, "date": day, **stolen}
    document.update(page, "postgres", {name: report.rows(figures)}, about, BENCHMARKS)


def test_update_fills_in_the_block_of_the_store_and_nothing_else(tmp_path: Path) -> None:
    page = _page(tmp_path)
    before = page.read_text()
    _update(page, "2026-11-15", Figure("locks: a", "ms", [1.0]))
    begin, end = (mark.format(store="postgres") for mark in (document.BEGIN, document.END))
    for place in (0, 1):
        wanted = before.split(f"{begin}\nold\n{end}")[place]
        assert wanted in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_a_part_replaces_its_rows_and_keeps_the_others_with_their_dates(tmp_path: Path) -> None:
    page = _page(tmp_path)
    slow = Figure("frozen: b", "s", [3.0], target=2.0)
    _update(page, "2026-11-15", Figure("locks: a", "ms", [7.0], target=8.0))
    _update(page, "2026-11-15", slow, Figure("frozen: gone", "s", [3.0]))
    assert "date: 2026-11-15;" in page.read_text()
    assert "1 of 2 targets MISSED: frozen: b." in page.read_text()

    fast = Figure("frozen: b", "s", [1.0], target=2.0)
    _update(page, "2026-11-18", fast, Figure("frozen: new", "s", [4.0]), share="2.0%")
    table = document.read(page, "postgres")
    assert list(table.rows) == ["freeze", "locks"]  # in the order of the benchmarks
    assert [row[0] for row in table.rows["freeze"]] == ["frozen: b", "frozen: new"]
    assert table.dates == {"locks": "2026-11-15", "freeze": "2026-11-18"}
    assert table.stolen == {"locks": "1.0%", "freeze": "2.0%"}
    shown = page.read_text().replace("\n", " ")
    assert "date: 2026-11-15 (locks), 2026-11-18 (freeze);" in shown
    assert "All 2 targets met." in shown


def test_what_was_measured_with_something_else_goes(tmp_path: Path) -> None:
    page = _page(tmp_path)
    _update(page, "2026-11-15", Figure("locks: a", "ms", [7.0]))
    assert document.differs(page, "postgres", {**FOUND, "cores": "4"}) == ["cores"]
    assert document.differs(page, "postgres", {**FOUND, "date": "2026-11-18"}) == []
    _update(page, "2026-11-18", Figure("idle: a", "ms", [7.0]), cores="4")
    assert list(document.read(page, "postgres").rows) == ["idle"]


def test_the_tables_in_the_documentation_are_read_as_they_were_written() -> None:
    page = Path(__file__).parents[2] / "docs" / "performance.md"
    for store in STORES:
        table = document.read(page, store)
        assert set(table.rows) == set(table.dates) <= set(BENCHMARKS)
        assert "cores" in table.facts


def test_a_page_without_the_marks_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = _page(tmp_path)
    page.write_text(page.read_text().replace("figures of redis", "figures of nobody"))
    with pytest.raises(SystemExit) as refused:
        main(["--quick", "--store", "all", "--update", str(page)])
    assert refused.value.code == 2
    assert "must have the lines '<!-- figures of redis" in capsys.readouterr().err


def test_a_part_is_not_put_beside_what_was_measured_with_something_else(tmp_path: Path) -> None:
    page = _page(tmp_path)
    facts = {"cores": "no number", "date": "2026-11-15"}
    rows = {"idle": report.rows([Figure("idle: a", "ms", [7.0])])}
    document.update(page, "sqlite", rows, facts, BENCHMARKS)
    before = page.read_text()
    with pytest.raises(SystemExit, match="measured with another cores"):
        main(["locks", "--quick", "--update", str(page)])
    assert page.read_text() == before


def test_the_documentation_has_the_marks() -> None:
    for store in STORES:
        document.check(Path(__file__).parents[2] / "docs" / "performance.md", store)


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown: speed; there are takeover" in capsys.readouterr().err


def test_what_the_host_took_is_told_of_each_benchmark() -> None:
    whole, each = Shares(busy=0.4, stolen=0.012), {"cut": Shares(0.5, 0.2), "idle": None}
    assert stolen(whole, each) == {"stolen by the host": "1.2% of the time (cut 20.0%)"}
    assert stolen(None, each) == {}


def test_a_busy_machine_is_told() -> None:
    marked = "16%, INDICATIVE ONLY: the machine was busy"
    assert busy(Shares(busy=0.16, stolen=0.0)) == {"busy before": marked}
    assert busy(Shares(busy=0.14, stolen=0.0)) == {"busy before": "14%"}
    assert busy(None) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it")
def test_work_is_seen_in_the_counters() -> None:
    stretch = Stretch()
    begun = time.process_time()
    while time.process_time() < begun + 0.2:
        pass
    shares = stretch.shares()
    assert shares is not None
    assert 0 < shares.busy <= 1
    assert 0 <= shares.stolen <= shares.busy
