"""The HTTP API: JSON over the functions that the command line uses.

`routes(access)` are mounted under `/api`. Each noun has a file with its values, its handlers and
its part of the one table, of which everything else is made: `handling.py` routes and checks by it,
`description.py` turns it into OpenAPI, and `page.py` into a page to read. Security stands before
all this: it says who asks (`request.state.actor`) and whether they may change something
(`request.state.may_write`). What it does not say is refused.
"""

from tenure.web.api.handling import routes

__all__ = ["routes"]
