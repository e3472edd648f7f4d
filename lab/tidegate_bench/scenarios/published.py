"""published: the cases that README.md and docs/performance.md show, of three other scenarios.

Each store has a lab of its own, with an Apache Kafka on as many cores as the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from ..errors import BenchError
from ..lab import Lab
from ..measure.published import CASES, Case, Place
from ..measure.table import Report
from ..options import Options
from . import fanout, ingest, latency

_SCENARIOS: Final[Mapping[str, Callable[[Lab], Report]]] = {
    "ingest": ingest.run,
    "fanout": fanout.run,
    "latency": latency.run,
}


def run(lab: Lab) -> Report:
    """Measure the cases, store by store."""
    if lab.options.bootstrap is not None:
        raise BenchError("published needs gateways that the bench starts, not --bootstrap")
    reports: list[Report] = []
    for place in dict.fromkeys(case.place for case in CASES):
        if cases := cases_at(place, lab.options):
            reports += _measured(lab, place, cases)
    rows = [row for report in reports for row in report.rows]
    return Report("published", rows, [note for report in reports for note in report.notes])


def cases_at(place: Place, options: Options) -> list[Case]:
    """Return the cases of a store that the options ask for."""
    return [case for case in CASES if case.place == place and options.wants(case.label)]


def options_at(place: Place, cases: Sequence[Case], options: Options) -> Options:
    """Return the options of the scenarios at a store."""
    return replace(
        options,
        store=place.store,
        log="sqlite",
        processes=place.cores,
        client="both",
        only=tuple(case.label for case in cases),
    )


def _measured(lab: Lab, place: Place, cases: Sequence[Case]) -> list[Report]:
    with ExitStack() as stack:
        inner = Lab(options_at(place, cases, lab.options), lab.console, stack)
        inner.rows = lab.rows  # printed even if a later case fails
        return [_SCENARIOS[name](inner) for name in dict.fromkeys(each.scenario for each in cases)]
