"""The resources that a broker has used so far, and its use between two samples."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import proc
from .figures import Observation

METRICS_SECONDS = 30.0
_REQUESTS = "kafka_network_requestmetrics_requests_total"
_PUTS = "tidegate_wal_objects_total"
_GETS = "tidegate_store_gets_total"


@dataclass(frozen=True, slots=True)
class Eyes:
    """The sources of figures; None: not available.  more_pids: further processes of the broker."""

    pid: int | None = None
    store_pid: int | None = None
    metrics_url: str | None = None
    more_pids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample.  counters: of the metrics page, summed over labels."""

    at: float
    server_cpu: float | None
    store_cpu: float | None
    counters: Mapping[str, float]


def look(eyes: Eyes, *, first: bool) -> Sample:
    """Take a sample.  The metrics page costs the broker CPU, so it is read outside of the measured
    time.
    """
    counters = counters_of(eyes) if first else {}
    at = time.perf_counter()
    cpu = _cpu(eyes.pid)
    if cpu is not None:
        cpu += sum(map(proc.cpu_seconds, eyes.more_pids))
    store_cpu = _cpu(eyes.store_pid)
    return Sample(at, cpu, store_cpu, counters if first else counters_of(eyes))


def between(
    eyes: Eyes,
    before: Sample,
    after: Sample,
    *,
    payload_bytes: int,
    seconds: float,
    more: Mapping[str, float] | None = None,
) -> Observation:
    """Return the figures of a run; seconds and payload are the clients'."""

    def used(name: str) -> float | None:
        if name not in after.counters:
            return None
        return after.counters[name] - before.counters.get(name, 0.0)

    return Observation(
        payload_bytes,
        seconds,
        _minus(after.server_cpu, before.server_cpu),
        _minus(after.store_cpu, before.store_cpu),
        used(_REQUESTS),
        used(_PUTS),
        used(_GETS),
        sum(map(proc.rss_bytes, (eyes.pid, *eyes.more_pids))) if eyes.pid else None,
        more or {},
    )


def sums_of(text: str) -> dict[str, float]:
    """Return the samples of a metrics page by name, added up over their labels."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if 'request="FetchConsumer"' not in labels:  # counted as Fetch too
                sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def counters_of(eyes: Eyes) -> dict[str, float]:
    """Return the counters of the metrics page; none without a page."""
    if eyes.metrics_url is None:
        return {}
    with urllib.request.urlopen(eyes.metrics_url, timeout=METRICS_SECONDS) as page:
        return sums_of(page.read().decode())


def _cpu(pid: int | None) -> float | None:
    return None if pid is None else proc.cpu_seconds(pid)


def _minus(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
