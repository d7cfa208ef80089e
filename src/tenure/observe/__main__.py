"""python -m tenure.observe alerts|dashboard: print a file that is shipped with Tenure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files

FILES = {"alerts": "alerts.yaml", "dashboard": "dashboard.json"}


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in FILES:
        sys.stderr.write(f"Usage: python -m tenure.observe {'|'.join(FILES)}\n")
        return 2
    shipped = files("tenure.observe") / "prometheus" / FILES[arguments[0]]
    sys.stdout.write(shipped.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
