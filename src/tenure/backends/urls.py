"""The parts of a store's URL, on every Python.

`urllib.parse.urlsplit` is made for the web, where a URL has one host. What it makes of several, of
an IPv6 address among them or of a bracket in a password has changed between patch releases of
Python. So it is not used for the URLs of stores.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import NamedTuple

Host = tuple[str, int]
RFC = "/?#"
LIBPQ = "/"


class Url(NamedTuple):
    """As written: nothing is decoded."""

    scheme: str
    """In lower case."""
    credentials: str
    """`user:password`, or empty."""
    hosts: str
    """One or several with commas, each with or without a port."""
    path: str
    query: str

    @property
    def user(self) -> str:
        return self.credentials.partition(":")[0]


def scheme_of(url: str) -> str:
    """Empty if it is not a URL."""
    found = re.match(r"\s*([a-z][a-z0-9+.-]*)://", url, re.IGNORECASE)
    return found[1].lower() if found else ""


def split(url: str, *, credentials_before: str = RFC) -> Url:
    """Take it apart. `credentials_before`: the characters that no password has unless encoded."""
    rest = url.strip().partition("://")[2]
    credentials, at, _ = _until(credentials_before, rest).rpartition("@")
    rest = rest[len(credentials + at) :]
    hosts = _until(RFC, rest)
    path, _, query = rest[len(hosts) :].partition("?")
    return Url(scheme_of(url), credentials, hosts, path, query)


def addresses(hosts: str, port: int) -> tuple[Host, ...]:
    """Each host with its port, or with this one. Raises ValueError."""
    return tuple(_address(one, port) for one in hosts.split(","))


def _address(text: str, port: int) -> Host:
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address such as [::1]:6379")
        IPv6Address(name)
        number = rest[1:]
    else:
        name, _, number = text.partition(":")
    if number and not (number.isascii() and number.isdigit() and int(number) < 65536):
        raise ValueError(f"{number!r} is not a port. An IPv6 address needs brackets: [::1]:6379")
    return name.lower() or "localhost", int(number or 0) or port


def _until(marks: str, text: str) -> str:
    return re.split(f"[{marks}]", text, maxsplit=1)[0]
