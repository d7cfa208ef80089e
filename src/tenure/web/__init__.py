"""The dashboard and the HTTP API: what people on call look at. Needs the extra `tenure[web]`.

`app.py` puts it together: `dashboard(scheduler)` is an ASGI application. `security/` stands before
every page, `reading.py` asks the store, `live.py` tells open pages what changed, `pages/` has a
file for each page, `drawing/` the figures, and `api/` what programs ask. Nothing here has rules of
its own about schedules, runs or leases: pages show what the store says, and act through the same
functions as the command line.
"""

from tenure.web.app import dashboard

__all__ = ["dashboard"]
