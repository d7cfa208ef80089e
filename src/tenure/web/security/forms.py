"""Forms that pages of ours have sent."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from tenure.web.security.guard import Refused
from tenure.web.security.sessions import Sessions

MOST_FIELDS = 1_000
ARRIVE_WITHIN = 10.0
_SENT = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, list[str]]:
    """What a form sent, by field. The guard limits its length."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _SENT:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "That is not a form.")
    try:
        async with asyncio.timeout(ARRIVE_WITHIN):
            text = (await request.body()).decode()
        return parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (TimeoutError, ClientDisconnect):
        text = f"The form did not arrive within {ARRIVE_WITHIN:g} s."
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, text) from None
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from None


async def checked_form(request: Request, sessions: Sessions) -> dict[str, list[str]]:
    """The same; refused if it is not one of ours."""
    given = await read_form(request)
    proof = given.pop("proof", [""])[0]
    if not sessions.is_proof(proof, request.state.bound):
        raise Refused(
            HTTPStatus.FORBIDDEN, "The form was not one of this dashboard's. Load the page again."
        )
    return given
