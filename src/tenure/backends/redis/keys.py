"""The keys of a namespace, and the scripts that change them.

tenure:{namespace}:lease:<name>    the lease
tenure:{namespace}:leases          all names
tenure:{namespace}:history         past holders of Tenure's own leases
tenure:{namespace}:history:locks   and of all others
tenure:{namespace}:server          the server as last seen (began.lua); the greatest term

The first word is `PREFIX`, unless the URL or `RedisClient` names another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tenure.backends.base import OWN
from tenure.backends.redis_client import PREFIX

FINISHED = 7 * 86_400.0
"""After so many seconds Redis itself drops a lease that was released, if no process of ours has
done so before. By its own clock, so it is long enough that setting that forward would not matter.
Its term is safe: see floor.lua. A lease that is held has no such limit, since a server that is
short of memory may drop whatever has one."""
PAGE = 500
"""How many leases one script reads: the whole server waits meanwhile."""
_PARTS = {
    "acquire": ("stored", "began", "floor", "acquire"),
    "renew": ("stored", "began", "renew"),
    "describe": ("stored", "describe"),
    "release": ("stored", "floor", "release"),
    "read": ("stored", "read"),
    "page": ("stored", "page"),
    "history": ("stored", "history"),
    "forget": ("stored", "floor", "forget"),
    "forget_history": ("stored", "forget_history"),
}


def script(name: str) -> str:
    """The text of a Lua file."""
    return files("tenure.backends.redis").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


def scripts() -> dict[str, str]:
    return {name: "".join(map(script, parts)) for name, parts in _PARTS.items()}


def request(about: Mapping[str, Any]) -> str:
    """A script's argument, as JSON. Names that are not UTF-8 are sent as their bytes: Redis does
    not accept them as JSON escapes."""
    return json.dumps(about, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace."""

    namespace: str
    beginning: str = PREFIX

    @property
    def prefix(self) -> str:
        # Redis hashes only what is in braces: all keys of a namespace are in one slot of a cluster.
        return f"{self.beginning}:{{{self.namespace}}}:"

    @property
    def wake(self) -> str:
        """The channel of wake-ups."""
        return f"{self.prefix}wake"

    @property
    def names(self) -> str:
        return f"{self.prefix}leases"

    @property
    def own_history(self) -> str:
        return f"{self.prefix}history"

    @property
    def history(self) -> str:
        return f"{self.prefix}history:locks"

    @property
    def server(self) -> str:
        return f"{self.prefix}server"

    def lease(self, name: str) -> str:
        return f"{self.prefix}lease:{name}"

    def all_of(self, name: str) -> list[str]:
        """The keys that taking or ending a lease needs."""
        history = self.own_history if name.startswith(OWN) else self.history
        return [self.lease(name), history, self.names, self.server]

    def page(self, prefix: str, after: str, limit: int) -> str:
        """The request for a page of leases."""
        about = {"prefix": prefix, "after": after or "0", "limit": limit, "lease": self.lease("")}
        return request(about)
