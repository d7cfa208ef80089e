"""How a program gets its options, and tells what it does."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.support import Journal


class Options:
    """What the test said; and the journal."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.who: str = values["who"]
        self.journal = Journal(Path(values["journal"]))

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)

    def write(self, event: str, **values: object) -> None:
        self.journal.write(event, self.who, **values)


def start(main: Callable[[Options], None]) -> None:
    main(Options(json.loads(sys.argv[1])))


def told(options: Options, word: str) -> bool:
    """Wait for the test to say the word to this program; False when the test is over."""
    said = options.journal.path.with_name(f"{options.who}.{word}")
    while not said.exists():
        # Nothing is ever written to the input: to be readable is to be at its end.
        if select.select([0], [], [], 0.01)[0]:
            return False
    said.unlink()
    return True
