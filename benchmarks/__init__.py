"""The figures in docs/performance.md: `python -m benchmarks --help`."""
