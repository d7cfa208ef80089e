"""Which addresses a webhook may go to."""

from __future__ import annotations

import socket

import pytest

from tenure.events.sinks.addresses import is_public, resolved


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1"])
def test_addresses_of_the_internet(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::a00:1"),
    ],
)
def test_private_addresses_in_all_their_disguises(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "::1"])
def test_this_machine_is_refused_however_it_is_written(host: str) -> None:
    try:
        socket.getaddrinfo(host, 80)
    except OSError:
        pytest.skip("this machine does not resolve it at all")
    with pytest.raises(OSError, match="not a public address"):
        resolved(host, 80, False)
    assert resolved(host, 80, True)
