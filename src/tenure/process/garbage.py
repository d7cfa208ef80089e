"""What the garbage collector need not look at again.

A full collection looks at every container in the process, 50 ms for an ordinary application, and
for as long nothing fires and nothing starts. Most of what it finds are modules, classes and
functions, which stay until the process ends. A process that is a node and nothing else can leave
those out: measured at 4,000 runs a second, full collections on the leader took 16 instead of 50 ms.
"""

from __future__ import annotations

import gc


def leave_out_what_stays() -> None:
    """All that exists now is no longer searched for cycles. It is still freed when its last
    reference goes."""
    if gc.isenabled():
        gc.collect()
        gc.freeze()
