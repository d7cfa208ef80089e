"""For the tests of users and of backend authors: a clock to be moved by hand, the backend contract.

`tenure.testing.contract` needs pytest and hypothesis; this module needs nothing.
"""

from tenure.testing.clock import FakeClock

__all__ = ["FakeClock"]
