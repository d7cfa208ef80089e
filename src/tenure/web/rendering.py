"""Templates, and what is done to every text that goes into them.

Names, reasons, errors and payloads come from anywhere. Jinja escapes markup, `shown` makes control
characters and marks of direction visible, and `cut` keeps a page small.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from tenure.model.version import VERSION
from tenure.printable import lines, one_line
from tenure.words import count, lasted, relative, short, span

LONGEST_TEXT = 20_000
FRAGMENT = "tenure-fragment"
"""The header by which an open page asks for its new content alone."""


def shown(value: object) -> object:
    """What is put into a page, unless it is markup of ours."""
    if isinstance(value, Markup):
        return value
    return "–" if value is None else one_line(value)


def raw(value: object) -> Markup:
    """The value itself, escaped: for fields of forms, which are to come back unchanged."""
    return escape(value)


def cut(text: object, most: int = LONGEST_TEXT) -> Markup:
    """A text with lines of its own; its middle is left out if it is very long."""
    whole = lines(text)
    if len(whole) > most:
        half, left_out = most // 2, len(whole) - most
        whole = f"{whole[:half]}\n… {left_out:,} characters left out …\n{whole[-half:]}"
    return escape(whole)


def pretty(text: str | None, most: int = LONGEST_TEXT) -> Markup:
    """JSON as people read it; or the text, if it is none."""
    if text is not None and len(text) <= most:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return cut("" if text is None else text, most)


def ago(moment: datetime | None, now: datetime) -> Markup:
    """How far away it is; the module of ours keeps counting, and a pointer shows the whole time."""
    if moment is None:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{1}" data-relative>{2}</time>').format(
        iso(moment), exact(moment), relative(moment, now)
    )


def since(moment: datetime | None, now: datetime) -> Markup:
    """When something began that goes on, and how long ago that was."""
    if moment is None:
        return Markup("–")
    return Markup("{0} ({1})").format(clock(moment, now), ago(moment, now))


def clock(moment: datetime | None, now: datetime) -> Markup:
    """The time of day, with the date if that is another."""
    if moment is None:
        return Markup("–")
    utc, today = moment.astimezone(UTC), now.astimezone(UTC)
    text = f"{utc:%H:%M:%S}" if utc.date() == today.date() else f"{utc:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        iso(moment), exact(moment), text
    )


def precise(moment: datetime, now: datetime) -> Markup:
    """The time of day to the millisecond, for pages about one run; with the date if that is
    another."""
    utc = moment.astimezone(UTC)
    text = f"{utc:%H:%M:%S.%f}"[:-3]
    if utc.date() != now.astimezone(UTC).date():
        text = f"{utc:%Y-%m-%d} {text}"
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        iso(moment), exact(moment), text
    )


def day(moment: datetime) -> str:
    """A time as people say it: without what is zero."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M}" if not utc.second else f"{utc:%Y-%m-%d %H:%M:%S}"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def query(**given: object) -> str:
    """The end of a link, without what is not given."""
    chosen = {name: value for name, value in given.items() if value not in (None, "", False)}
    return f"?{urlencode(chosen)}" if chosen else ""


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tenure.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ago": ago, "clock": clock, "cut": cut, "pretty": pretty, "span": span}
    made.filters |= {"lasted": lasted, "since": since}
    made.filters |= {"iso": iso, "exact": exact, "short": short, "raw": raw}
    made.filters |= {"precise": precise, "day": day}
    made.globals |= {"count": count, "query": query, "version": VERSION}
    return made


def page(
    request: Request, template: str, /, status: HTTPStatus = HTTPStatus.OK, **values: Any
) -> HTMLResponse:
    """A whole page, or its content alone if an open page asks for that."""
    state = request.state
    base = str(request.scope.get("root_path", ""))
    common = {
        "base": base,
        "path": state.path,
        "fragment": FRAGMENT in request.headers,
        "may_write": state.may_write,
        "proof": state.proof,
        "session": state.session,
        "actor": state.actor,
        "topics": "",
        "now": None,
        "said": state.said,
    }
    text = environment().get_template(template).render({**common, **values})
    return HTMLResponse(text, status)
