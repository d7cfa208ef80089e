"""The page of metrics, in the format that a scraper asks for.

prometheus-client writes it. That takes milliseconds, in which other threads wait, and they have
heartbeats to send. So it writes a *form*: a page in which each number is the place where to find
it. While the series stay the same, only the numbers are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from tenure.observe.catalogue import Metric
from tenure.observe.metrics import PACKAGE, Series, families, metrics_of
from tenure.observe.pages import Expose
from tenure.observe.tally import Labels
from tenure.process.clock import SystemClock
from tenure.scheduler.observers import Observers

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

LASTS = 0.2
"""In seconds: the same text is sent to all who ask within so long."""
_END = "# EOF\n"
"""How a page in the OpenMetrics format ends."""
Shape = list[tuple[Metric, Labels]]


def exposition(observers: Observers) -> Expose | None:
    """Writes them, together with those of the process. None if prometheus-client is missing."""
    if find_spec(PACKAGE) is None:
        return None
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    metrics = metrics_of(observers)
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    guard, clock = Lock(), SystemClock()
    forms: dict[str, Form] = {}
    written: dict[str, tuple[float, bytes]] = {}

    def expose(accept: str) -> tuple[str, bytes]:
        encode, kind = choose_encoder(accept)
        with guard:
            at, page = written.get(kind, (float("-inf"), b""))
            if clock.monotonic() - at > LASTS:
                series = metrics.series()
                shape: Shape = [(metric, labels) for metric, labels, _ in series]
                form = forms.get(kind)
                if form is None or form.shape != shape:
                    form = forms[kind] = Form(series, encode)
                page = (form.filled(series) + encode(process).decode()).encode()
                written[kind] = clock.monotonic(), page
        return kind, page

    return expose


class Form:
    """A page without its numbers."""

    def __init__(self, series: Sequence[Series], encode: Callable[[Any], bytes]) -> None:
        self.shape: Shape = [(metric, labels) for metric, labels, _ in series]
        places = count()
        self._parts: list[tuple[str, int]] = []
        """What is written before a number, and its place among all."""
        numbered = [(metric, at, [float(next(places)) for _ in n]) for metric, at, n in series]
        text = ""
        for line in encode(_Collected(numbered)).decode().removesuffix(_END).split("\n")[:-1]:
            name, _, place = line.rpartition(" ")
            if line.startswith("#"):
                text += f"{line}\n"
            else:
                self._parts.append((f"{text}{name} ", int(float(place))))
                text = "\n"
        self._rest = text

    def filled(self, series: Sequence[Series]) -> str:
        """The page of these, which have the same shape."""
        from prometheus_client.utils import floatToGoString

        write: Callable[[float], str] = floatToGoString
        numbers = [write(number) for *_, numbers in series for number in numbers]
        return "".join([f"{text}{numbers[at]}" for text, at in self._parts]) + self._rest


class _Collected:
    """What an encoder takes for a registry."""

    def __init__(self, series: Sequence[Series]) -> None:
        self._series = series

    def collect(self) -> Iterator[Family]:
        return families(self._series)
