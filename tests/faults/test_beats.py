"""Three `celery beat -S tenure` and a worker: whatever happens to the beats, each occurrence is
executed once. The same as scripts/torture, in short."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.beats import BEAT, start_celery
from tests.faults.support import LONG_TTL, Store, until
from tests.faults.torture.beat import main

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="watches processes through /proc"),
]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_each_occurrence_is_executed_once_whatever_happens_to_the_beats(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        [
            *("--kills", "2", "--schedules", "5", "--away", "1.5", "--seed", "1"),
            # A second is promised, and a busy machine is late: torture measures it. Whoever waited
            # for the lease to expire, renewed every third of its ttl, would be later than this.
            *("--store", store, "--ttl", "9", "--gap", "5"),
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert "frozen 1, killed 2, broker away 1" in out
    gap = re.search(r"at most (\d+\.\d+) s late after 2 kills", out)
    assert gap is not None, out
    assert float(gap[1]) > 0  # it was measured
    assert "each executed once" in out
    executed = re.match(r"(\d+) occurrences", out)
    assert executed is not None
    assert int(executed[1]) >= 5 * 5


def test_a_beat_that_is_stopped_while_it_joins_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "beats.db")
    given = {
        "url": f"sqlite:///{store.path}",
        "broker": "redis://127.0.0.1:1/0",  # where nobody listens, nor needs to
        "journal": str(tmp_path / "journal"),
        "ttl": LONG_TTL,
        "schedules": 1,
    }
    beat = start_celery("beat", tmp_path / "beat.log", given, *BEAT)
    try:
        until(store.path.exists, "a beat that joins")
        beat.signal(signal.SIGTERM)
        assert beat.wait() == 0, beat.output
    finally:
        beat.end()
    held = store.rows("SELECT name FROM tenure_lease WHERE holder IS NOT NULL")
    assert [row["name"] for row in held] == []
