"""`python -m tenure.cli`: the same command, for a process that starts another."""

from tenure.cli import main

main(prog_name="tenure")
