"""The options of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from .errors import BenchError

Client = Literal["librdkafka", "java", "both"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of runs: bytes of payload, or seconds, whichever ends first.

    jvm_bytes: written to Apache Kafka to warm it up, unmeasured.
    records: of latencies.
    """

    runs: int
    run_bytes: int
    run_seconds: float
    warm_bytes: int
    warm_seconds: float
    jvm_bytes: int
    records: int
    record_seconds: float


# The warm-up exceeds the gateway's cache, because fresh memory costs CPU.
FULL: Final = Lengths(3, 500_000_000, 5.0, 400_000_000, 4.0, 5_000_000_000, 3_000, 4.0)
QUICK: Final = Lengths(1, 100_000_000, 2.0, 50_000_000, 1.0, 500_000_000, 300, 1.5)


def _no_settings() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked.  only: a case runs if its label contains one of these; empty: all.

    hours, partitions, gateways, slices (of a flush), retention_hours: of the scenario metadata.
    processes: gateways of ours at a time, on as many cores; None: one, on any.
    """

    bootstrap: str | None = None
    pid: int | None = None
    metrics_url: str | None = None
    store: str = "seaweedfs"
    log: str | None = None
    vs_kafka: bool = False
    client: Client = "librdkafka"
    quick: bool = False
    all_cases: bool = False
    only: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=_no_settings)
    delay_ms: float = 60.0
    hours: float = 1.0
    partitions: int = 100_000
    gateways: int = 9
    slices: int = 200
    retention_hours: float = 0.25
    processes: int | None = None

    @property
    def lengths(self) -> Lengths:
        """Return the lengths of runs."""
        return QUICK if self.quick else FULL

    @property
    def uses_librdkafka(self) -> bool:
        """Return whether the options ask for librdkafka's cases."""
        return self.client != "java"

    @property
    def uses_java(self) -> bool:
        """Return whether the options ask for the cases of Kafka's Java tools."""
        return self.client != "librdkafka"

    def wants(self, label: str) -> bool:
        """Return whether a case is to be run."""
        return not self.only or any(text in label for text in self.only)


def parse_settings(assignments: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE texts as a mapping.

    Raises:
      BenchError: one has no "=".
    """
    parsed: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BenchError(f"--set {text}: write NAME=VALUE")
        parsed[name] = value
    return parsed


def check(options: Options) -> Options:
    """Return the options.

    Raises:
      BenchError: two options contradict each other.
    """
    if options.bootstrap is None and (options.pid is not None or options.metrics_url is not None):
        raise BenchError("--pid and --metrics go with --bootstrap")
    if options.bootstrap is not None and options.settings:
        raise BenchError("--set needs a gateway that the bench starts, not for --bootstrap")
    if options.processes is not None:
        _check_processes(options, options.processes)
    return options


def _check_processes(options: Options, processes: int) -> None:
    if options.bootstrap is not None:
        raise BenchError("--processes needs gateways that the bench starts, not --bootstrap")
    if options.store == "memory" or options.log == "memory":
        raise BenchError("--processes: gateways cannot share the memory of one; use another store")
    cores = len(os.sched_getaffinity(0))
    if processes > cores:
        raise BenchError(f"--processes {processes}: this machine has {cores} cores")
