"""Searches histories for one in which something broken shows.

One of the first 200 must. The search begins with the seed that is in caught.json: that only saves
time. `TENURE_CATCH=anew scripts/test tests/simulation` corrects what is wrong there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.simulation import check, simulate

AT_MOST = 200
_CAUGHT = Path(__file__).with_name("caught.json")
_ANEW = os.environ.get("TENURE_CATCH") == "anew"


def catch(name: str, invariant: str, **changed: Any) -> None:
    """Fail unless a history breaks this invariant."""
    caught: dict[str, int] = json.loads(_CAUGHT.read_text())
    first = caught.get(name, 0)
    if first not in range(AT_MOST):
        pytest.fail(f"caught.json names seed {first} for {name}: none of the first {AT_MOST}")
    seen: set[str] = set()
    for seed in dict.fromkeys([first, *range(AT_MOST)]):
        seen |= {violation.invariant for violation in check(simulate(seed, **changed))}
        if invariant in seen:
            if _ANEW and seed != caught.get(name):
                _CAUGHT.write_text(json.dumps({**caught, name: seed}, indent=2) + "\n")
            return
    pytest.fail(f"{AT_MOST} histories, and [{invariant}] was not among {sorted(seen)}")
