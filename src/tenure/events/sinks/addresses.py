"""Which addresses a web request may go to.

A name is resolved, its addresses are checked, and the connection is made to one that was checked:
a name that leads elsewhere a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


def is_public(text: str) -> bool:
    """Does this address belong to the internet, and to no private network, host or group?"""
    address = ipaddress.ip_address(text.partition("%")[0])
    return all(
        each.is_global
        and not each.is_multicast
        and not each.is_reserved
        and not (isinstance(each, ipaddress.IPv6Address) and each.is_site_local)
        for each in (address, *_inside(address))
    )


def resolved(host: str, port: int, allow_private: bool) -> list[str]:
    """The addresses of this host that may be used; blocks. `OSError` if there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    allowed = [each for each in addresses if allow_private or is_public(each)]
    if not allowed:
        raise OSError(
            f"{host} resolves to {addresses[0]}, which is not a public address. Allow private"
            " addresses if that is intended"
        )
    return allowed


def _inside(address: _Address) -> list[_Address]:
    """The IPv4 addresses that an IPv6 address stands for: a router may lead there."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _NAT64):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if int(address) >> 32 == 0:  # the old form ::a.b.c.d
        inner.append(ipaddress.IPv4Address(int(address)))
    return [each for each in inner if each is not None]
