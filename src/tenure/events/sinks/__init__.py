"""Sinks: where the relay delivers events. `base.py` is the specification, a file for each sink.

`registry.py` turns a URL into a sink; other packages add theirs by an entry point of the group
`tenure.sinks`. May be imported by `node` and everything above; only `scheduler` and `cli` open one.
"""
