"""Names of leases that nodes agree on. By themselves: commands ask for them without a node."""

LEADER = "tenure/leader"
PRESENCE = "tenure/node/"
"""Followed by the name of the node."""
RELAY = "tenure/relay/"
"""Followed by the name of the relay."""
