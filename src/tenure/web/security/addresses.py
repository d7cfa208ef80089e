"""From where a request may come: the Host it names, the Origin of the page that sent it."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def host_of(netloc: str) -> str | None:
    """The name without its port, in lower case; None if it is not one."""
    try:
        parts = urlsplit(f"//{netloc}")
        return parts.hostname if parts.username is None and parts.path == "" else None
    except ValueError:
        return None


def address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    found = address(host)
    return host in LOOPBACK or (found is not None and found.is_loopback)


def is_our_host(netloc: str, names: Collection[str], *, loopback_only: bool) -> bool:
    """May a request name this Host? A page elsewhere can make its own name point to our address
    (DNS rebinding), but it cannot make its name one of ours, or a bare address."""
    host = host_of(netloc)
    if host is None:
        return False
    if host in names or is_loopback(host):
        return True
    return not loopback_only and address(host) is not None


def is_our_origin(origin: str, netloc: str) -> bool:
    """Was the page that sends this request one of ours? The scheme plays no part: a proxy may have
    taken TLS off."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == netloc.lower()
