"""What tasks say, in a database that is not in UTF-8.

A name that does not fit is refused, where it is given. An error, a log or a result cannot be: it
would be reported again and again, and all other results of the node with it. So what does not fit
is written as an escape.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg

_ANY = (None, "UTF8", "SQL_ASCII")


def codec_of(connection: psycopg.AsyncConnection[Any]) -> str | None:
    """Python's name for the encoding of the database; None if all text fits."""
    told = connection.info.parameter_status
    server = told("server_encoding")
    if server in _ANY:
        return None
    # If the client has another, the server converts, and not all of it as Python would.
    return connection.info.encoding if told("client_encoding") == server else "ascii"


def fitting(text: str | None, codec: str | None) -> str | None:
    if text is None or codec is None:
        return text
    return text.encode(codec, "backslashreplace").decode(codec)


def fitting_json(text: str | None, codec: str | None) -> str | None:
    """The same JSON."""
    if text is None or codec is None:
        return text
    return "".join(c if fitting(c, codec) == c else json.dumps(c)[1:-1] for c in text)
