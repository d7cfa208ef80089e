"""Sinks from other packages, found by their entry points, as backends are.

Whatever is wrong with such a package becomes one error that names the package and says what to do.
The text of its unexpected errors is not repeated, since it may contain the URL.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from tenure.errors import ConfigError, TenureError
from tenure.events.sinks.base import Sink, SinkPlace, SinkScheme
from tenure.printable import one_line

T = TypeVar("T")
GROUP = "tenure.sinks"
_PARTS = ("location", "lane", "open", "send", "close")


def find(name: str) -> SinkScheme | None:
    """The scheme of that name; None if no package has it."""
    given = [entry for entry in entry_points(group=GROUP) if entry.name.lower() == name]
    if not given:
        return None
    if len(given) > 1:
        packages = " and ".join(sorted(map(_package, given)))
        raise ConfigError(f"{packages} provide the sink {name}://. Uninstall all but one.")
    return _Outside(given[0]).scheme()


def installed() -> list[str]:
    """All sinks from other packages, for people."""
    return sorted(
        one_line(f"{entry.name.lower()}:// (from {_package(entry)})")
        for entry in entry_points(group=GROUP)
    )


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else one_line(entry.dist.name)


class _Outside:
    """Another package's sink, checked at every step."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._who = f"{_package(entry)}, which provides the sink {one_line(entry.name.lower())}://,"

    def scheme(self) -> SinkScheme:
        given = self._guarded(self._entry.load, "cannot be loaded")
        if not isinstance(given, SinkScheme):
            raise self._wrong(f"offers a {type(given).__name__}, not a SinkScheme")
        return SinkScheme(lambda place: self._parse(given, place))

    def _parse(self, given: SinkScheme, place: SinkPlace) -> Callable[[], Sink]:
        make = self._guarded(lambda: given.parse(place), "failed on this URL")
        if not callable(make):
            raise self._wrong("has a parse that returns no function that makes the sink")
        return lambda: self._make(make)

    def _make(self, make: Callable[[], Sink]) -> Sink:
        sink = self._guarded(make, "cannot make its sink")
        lacks = [part for part in _PARTS if not hasattr(sink, part)]
        if lacks:
            raise self._wrong(f"makes a {type(sink).__name__} that lacks {', '.join(lacks)}")
        return sink

    def _guarded(self, call: Callable[[], T], what: str) -> T:
        try:
            return call()
        except TenureError:
            raise
        except ModuleNotFoundError as error:
            missing = one_line((error.name or "unknown").partition(".")[0])
            problem = f"needs the package {missing!r}: pip install {missing}"
        except Exception as error:  # noqa: BLE001 - and not as the cause: it may have the URL
            problem = (
                f"{what}: {type(error).__name__}. What it said is not shown, since it may contain a"
                " password. Compare the URL with the package's documentation; if it is right,"
                " report this to its authors"
            )
        raise ConfigError(f"{self._who} {problem}.") from None

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self._who} {what}. Update the package, or choose another sink.")
