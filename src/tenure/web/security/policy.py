"""What the operator has decided about who may see and change things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

from tenure.errors import ConfigError
from tenure.web.security.addresses import address

SHORTEST_TOKEN = 16
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Policy:
    """Checked when it is made, so that a mistake shows at the start."""

    token: str | None = field(default=None, repr=False)
    """Who has it is let in. Without it and without a proxy, so is everyone who reaches the port."""
    allow_changes: bool = False
    hosts: frozenset[str] = frozenset()
    """Names under which the dashboard is reached, beside those of this machine's loopback."""
    user_header: str | None = None
    """The header in which an authenticating proxy names the user."""
    proxies: tuple[Network, ...] = ()
    """The addresses from which that header is believed."""
    https: bool = False
    """Do browsers reach it by https? Then the cookie is sent by no other way."""

    @classmethod
    def of(
        cls,
        *,
        token: str | None,
        allow_changes: bool,
        hosts: Sequence[str],
        user_header: str | None,
        proxies: Sequence[str],
        https: bool,
    ) -> Policy:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ConfigError(
                f"the token has {len(token)} characters, and needs {SHORTEST_TOKEN}: make one with"
                ' python -c "import secrets; print(secrets.token_urlsafe())"'
            )
        if (user_header is None) != (not proxies):
            raise ConfigError(
                "user_header= and proxies= belong together: a header is believed only from the"
                " addresses of your proxy."
            )
        return cls(
            token,
            allow_changes,
            frozenset(host.lower() for host in hosts),
            user_header.lower() if user_header else None,
            tuple(map(_network, proxies)),
            https,
        )

    @property
    def open(self) -> bool:
        """May everyone who reaches the port come in?"""
        return self.token is None and self.user_header is None

    def is_proxy(self, peer: str) -> bool:
        found = address(peer)
        return found is not None and any(found in network for network in self.proxies)


def _network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"proxies={text!r} is not an address or network: {error}") from None
