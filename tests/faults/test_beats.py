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


def test_each_occurrence_is_executed_once_whatever_happens_to_the_beats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(
        [
            *("--kills", "1", "--schedules", "5", "--away", "1.5"),
            *("--gap", "60", "--seed", "1"),  # a busy machine is late: torture measures it
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert "killed 1, frozen 1, broker away 1" in out
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
