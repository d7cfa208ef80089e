"""A node with its leases in Redis, which believes to be on a machine of its own: see machine.py."""

from __future__ import annotations

import logging

from tests.faults.programs import node
from tests.faults.programs.common import Options, start
from tests.faults.programs.machine import pretend


def main(options: Options) -> None:
    pretend(options.get("machine"))
    node.main(options)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
