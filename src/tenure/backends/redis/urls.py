"""The parts of a Redis URL, the same on every Python.

`urllib.parse.urlsplit` is made for the web, where a URL has one host. How it treats several hosts,
an IPv6 address among them, or a bracket in a password has changed between patch releases of Python.
So it is not used.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

Host = tuple[str, int]
_END = re.compile("[/?#]")


class Url(NamedTuple):
    """As written: nothing is decoded."""

    scheme: str
    """In lower case."""
    credentials: str
    """`user:password`, or empty."""
    hosts: str
    """One or several, separated by commas, each with or without a port."""
    path: str
    query: str


def split(url: str) -> Url:
    """Take it apart. In a password, `/`, `?` and `#` must be encoded."""
    scheme, _, rest = url.partition("://")
    credentials, at, _ = _END.split(rest, maxsplit=1)[0].rpartition("@")
    rest = rest[len(credentials + at) :]
    hosts = _END.split(rest, maxsplit=1)[0]
    path, _, query = rest[len(hosts) :].partition("?")
    return Url(scheme.lower(), credentials, hosts, path, query)


def addresses(hosts: str, port: int) -> tuple[Host, ...]:
    """Each host with its port, or with the default `port`.

    Raises ValueError without any part of the text: it may be a piece of a password.
    """
    return tuple(_address(one, port) for one in hosts.split(","))


def _address(text: str, port: int) -> Host:
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        try:
            IPv6Address(name)
        except AddressValueError:
            name = ""
        if not name or not closed or (rest and not rest.startswith(":")):
            raise ValueError("an IPv6 address in it is wrong: write [::1]:6379") from None
        number = rest[1:]
    else:
        name, _, number = text.partition(":")
    if number and not (number.isascii() and number.isdigit() and int(number) < 65536):
        raise ValueError(
            "a port in it is not a number below 65536; an IPv6 address needs brackets: [::1]:6379"
        )
    return name.lower() or "localhost", int(number or 0) or port
