"""A broken variant counts as caught only if one of the first 200 histories shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation import catching


def test_seed_on_record_that_is_none_of_the_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "caught.json"
    record.write_text(json.dumps({"late": catching.AT_MOST}))
    monkeypatch.setattr(catching, "_CAUGHT", record)
    monkeypatch.setattr(catching, "_ANEW", False)
    with pytest.raises(pytest.fail.Exception, match="names seed 200 for late"):
        catching.catch("late", "early")
