"""Forks into many, each of which is programs/guard.py: what takes long is to start Python."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback

import tenure.backends.redis  # noqa: F401 - once, before they are many
from tests.faults.programs import guard
from tests.faults.programs.common import Options


def main(values: dict[str, object]) -> int:
    children = []
    for name in values["names"]:  # type: ignore[attr-defined]
        child = os.fork()
        if child == 0:
            _be(Options({**values, "who": name}))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(codes)


def _be(options: Options) -> None:
    code = 1
    try:
        options.write("forked")
        guard.main(options)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    sys.exit(main(json.loads(sys.argv[1])))
