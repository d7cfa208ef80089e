"""Moving a store to another: `tenure copy`. ADR 62 has the states and why each kill is safe.

Beside the scheduler, which knows nothing of it: it needs the stores and the name of the leader's
lease, and nothing else of a node.
"""
