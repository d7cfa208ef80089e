"""Schemes from other packages, found by their entry points.

Whatever is wrong with such a package becomes one error that names the package and says what to do.
The text of its unexpected errors is not repeated, since it may contain the URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tenure.backends.base import Backend, LeaseBackend, Place, Scheme
from tenure.errors import ConfigError, TenureError
from tenure.printable import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tenure.backends"


def entry_points() -> Iterable[EntryPoint]:
    from importlib import metadata  # takes a while, and few stores come from elsewhere

    return metadata.entry_points(group=GROUP)


def find(name: str) -> Scheme | None:
    """The scheme of that name; None if no package has it."""
    given = [entry for entry in entry_points() if entry.name.lower() == name]
    if not given:
        return None
    if len(given) > 1:
        packages = " and ".join(sorted(map(_package, given)))
        raise ConfigError(f"{packages} provide {name}:// for Tenure. Uninstall all but one.")
    return _Outside(name, given[0]).scheme()


def installed() -> list[str]:
    """All schemes from other packages, for people."""
    return sorted(f"{entry.name.lower()}:// (from {_package(entry)})" for entry in entry_points())


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else one_line(entry.dist.name)


class _Outside:
    """Another package's scheme, checked at every step."""

    def __init__(self, name: str, entry: EntryPoint) -> None:
        self._name = name
        self._entry = entry
        self._package = _package(entry)

    def scheme(self) -> Scheme:
        given = self._load()
        return Scheme(lambda place: self._parse(given, place), leases_only=given.leases_only)

    def _load(self) -> Scheme:
        try:
            given = self._entry.load()
        except ModuleNotFoundError as error:
            raise self._lacks(error) from error
        except Exception as error:
            raise self._wrong(f"cannot be loaded: {_told(error)}") from error
        if not isinstance(given, Scheme):
            raise self._wrong(f"is a {type(given).__name__}, not a tenure.backends.base.Scheme")
        return given

    def _parse(self, given: Scheme, place: Place) -> Callable[[], LeaseBackend]:
        try:
            make = given.parse(place)
        except TenureError:
            raise
        except ModuleNotFoundError as error:
            raise self._lacks(error) from error
        except Exception as error:  # noqa: BLE001 - and not as the cause: it may have the URL
            kind = type(error).__name__
        else:
            if callable(make):
                return lambda: self._make(given, make)
            raise self._wrong(
                f"has a parse that must return a function that makes the backend, not"
                f" {type(make).__name__}"
            )
        raise ConfigError(
            f"{self._package}, which provides {self._name}://, failed on this URL with {kind}. What"
            " it said is not shown, since it may contain a password. Compare the URL with the"
            " package's documentation; if it is right, report this to its authors."
        ) from None

    def _make(self, given: Scheme, make: Callable[[], LeaseBackend]) -> LeaseBackend:
        try:
            backend = make()
        except ModuleNotFoundError as error:
            raise self._lacks(error) from error
        protocol = LeaseBackend if given.leases_only else Backend
        lacks = [part for part in _parts(protocol) if not hasattr(backend, part)]
        if lacks:
            kind = f"{type(backend).__name__} of {self._package}"
            raise ConfigError(
                f"{kind} lacks {', '.join(lacks)}, which every tenure.backends.base."
                f"{protocol.__name__} has. Update {self._package}; its authors: implement what is"
                " missing" + ("." if given.leases_only else ", or say Scheme(…, leases_only=True).")
            )
        return backend

    def _lacks(self, error: ModuleNotFoundError) -> ConfigError:
        missing = one_line((error.name or "unknown").partition(".")[0])
        return ConfigError(
            f"{self._package}, which provides {self._name}://, needs the package {missing!r}:"
            f" pip install {missing}"
        )

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._package} provides {self._name}:// by the entry point {self._entry.value!r},"
            f" which {what}. Reinstall or update {self._package}, or choose another store."
        )


def _told(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def _parts(protocol: type) -> Sequence[str]:
    return [name for name in dir(protocol) if not name.startswith("_")]
