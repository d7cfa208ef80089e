"""Three `celery beat -S tenure` and a worker: whatever happens to the beats, each occurrence is
executed once. The same as scripts/torture, in short."""

from __future__ import annotations

import re
import sys

import pytest

from tests.faults.torture.beat import main

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="watches processes through /proc"),
]


def test_each_occurrence_is_executed_once_whatever_happens_to_the_beats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["--kills", "2", "--schedules", "5", "--away", "1.5", "--seed", "1"])
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert "killed 2, frozen 1, broker away 1" in out
    assert "each executed once" in out
    executed = re.match(r"(\d+) occurrences", out)
    assert executed is not None
    assert int(executed[1]) >= 5 * 5
