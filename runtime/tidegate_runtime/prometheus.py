"""Metrics as Prometheus text, made in pieces in the event loop, with a checkpoint after each.

A thread would not relieve the loop: it holds the interpreter's lock, so each step of the loop would
wait for it.  A family of many samples is a Series, whose lines are made when the page reaches it,
since a Metric of the Prometheus client costs ten times as much.  So the values of a page are from
slightly different moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Final

import trio
from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.samples import Sample

from .histograms import SHOWN, Histogram

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
SAMPLES_A_PIECE: Final = 500
"""A piece takes about half a millisecond."""

_PROCESS = ProcessCollector(registry=None)
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Series:
    """A family of many samples.

    kind: counter, gauge or histogram.  name: as in the text, so that of a counter ends in _total.
    lines: see line(); they are made when the page reaches the series.
    """

    name: str
    help_text: str
    kind: str
    lines: Iterable[str]


Family = Metric | Series


class Break:
    """A marker among families: other tasks run before the next family is made."""


BREAK: Final = Break()


def gauge(name: str, help_text: str, value: float) -> Metric:
    """Return a value that rises and falls."""
    return GaugeMetricFamily(name, help_text, value=value)


def counter(name: str, help_text: str, value: float) -> Metric:
    """Return a count since the process's start; its name gets _total."""
    return CounterMetricFamily(name, help_text, value=value)


def line(name: str, labels: str, value: float | str) -> str:
    """Return the line of a sample.  labels: see label(), joined by commas; "" for none."""
    return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def label(name: str, value: str) -> str:
    """Return a label of a sample."""
    return f'{name}="{value.translate(_ESCAPES)}"'


def histogram(name: str, help_text: str, values: Histogram) -> Series:
    """Return a histogram of seconds."""
    shown = values.shown()
    bounds = (*map(str, SHOWN), "+Inf")
    lines = [
        line(f"{name}_bucket", label("le", bound), count)
        for bound, count in zip(bounds, shown, strict=True)
    ]
    lines += [line(f"{name}_count", "", shown[-1]), line(f"{name}_sum", "", values.sum_seconds)]
    return Series(name, help_text, "histogram", lines)


async def render(families: Iterable[Family | Break], *, of_process: bool = True) -> bytes:
    """Return metrics as text.  of_process: include the metrics of the process."""
    parts: list[bytes] = []
    for piece in pieces(families):
        parts.append(piece.encode())
        await trio.lowlevel.checkpoint()
    if not of_process:
        return b"".join(parts)
    # Open files are counted by listing them, which may take long.
    for piece in pieces(await trio.to_thread.run_sync(lambda: list(_PROCESS.collect()))):
        parts.append(piece.encode())
    return b"".join(parts)


def pieces(families: Iterable[Family | Break]) -> Iterator[str]:
    """Yield the text in pieces that end at each BREAK, and after SAMPLES_A_PIECE lines."""
    made: list[str] = []
    for family in families:
        if isinstance(family, Break):
            yield "".join(made)
            made.clear()
            continue
        for each in _lines(family):
            made.append(each)
            if len(made) == SAMPLES_A_PIECE:
                yield "".join(made)
                made.clear()
    yield "".join(made)


def _lines(family: Family) -> Iterator[str]:
    series = family if isinstance(family, Series) else _series(family)
    text = series.help_text.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {series.name} {text}\n# TYPE {series.name} {series.kind}\n"
    yield from series.lines


def _series(family: Metric) -> Series:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Series(name, family.documentation, family.type, map(_of_sample, family.samples))


def _of_sample(sample: Sample) -> str:
    labels = ",".join(label(*each) for each in sorted(sample.labels.items()))
    return line(sample.name, labels, _number(sample.value))


def _number(value: float) -> float | str:
    """Return a number as Prometheus writes it."""
    if isnan(value):
        return "NaN"
    return float(value) if isfinite(value) else "+Inf" if value > 0 else "-Inf"
