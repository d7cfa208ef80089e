"""Leases in a JSON file, by URLs such as jsonfile:///leases.json."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from tenure import ConfigError
from tenure.backends.base import LeaseBackend, Place, Scheme


def parse(place: Place) -> Callable[[], LeaseBackend]:
    """Check the URL, now; import and make the backend later."""
    rest = place.url.partition("://")[2]
    path = unquote(rest[1:])
    if not rest.startswith("/") or not path or "\0" in path:
        raise ConfigError(
            "a jsonfile:// URL names a file: jsonfile:///relative/leases.json or"
            " jsonfile:////absolute/leases.json."
        )
    if sys.platform == "win32":
        raise ConfigError("jsonfile:// needs file locks that Windows does not have.")

    def make() -> LeaseBackend:
        from tenure_jsonfile.backend import JsonFileBackend

        return JsonFileBackend(Path(path), namespace=place.namespace, clock=place.clock)

    return make


SCHEME = Scheme(parse, leases_only=True)
