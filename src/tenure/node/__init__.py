"""One process in the cluster: `node.py` wires the services, and each service has its file.

May be imported by `scheduler` and `leases`, which start nodes or parts of them.
"""
