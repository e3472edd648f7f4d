"""An object store with a cap on its bandwidth, and clients that offer several times that.

    compat-tests/run overload --seconds 300 --json

A proxy before SeaweedFS lets `--cap` bytes a second pass.  Producers, half of them idempotent,
offer `--times` as much, and three members of a group read it.  A probe sends and reads a record ten
times a second.  Then the flood ends.  Within RELIEF_SECONDS the probe must have its former latency
again, though the cap stays.  The exit status is 1 if memory exceeded its bound, a member expired,
fetches were not served, or the latency did not come back.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from crash.load import Worker
from crash.seaweed_store import seaweed_store
from harness.broker import LocalBroker, running
from harness.process import free_ports
from runner.options import option
from runner.result import Result

from overload.clients import Flood, Member, Probe, ProbeReader, create_topics

MEMBERS = 3
CALM_SECONDS = 10.0
RELIEF_SECONDS = 10.0
AFTER_SECONDS = 20.0
SAMPLE_SECONDS = 0.5
MIB = 1 << 20
BUFFERED_BYTES = 128 * MIB
CACHE_BYTES = 64 * MIB
# Code, state, connections, and the copies that the store's client makes for uploads.
OTHER_BYTES = 192 * MIB
# The buffers, half as much for sealed objects (see buffered.bytes.max), the cache, and OTHER_BYTES.
MEMORY_BOUND_BYTES = BUFFERED_BYTES * 3 // 2 + CACHE_BYTES + OTHER_BYTES
SETTINGS = {
    "buffered.bytes.max": str(BUFFERED_BYTES),
    "fetch.cache.bytes": str(CACHE_BYTES),
    "group.initial.rebalance.delay.ms": "0",
}
# The latency is back to normal below NORMAL_FACTOR times the calm median, or below NORMAL_SECONDS.
NORMAL_FACTOR = 3.0
NORMAL_SECONDS = 0.5
FETCH_GAP_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    """The options."""

    seconds: float = 60.0
    cap: float = option(20e6, "bytes a second")
    times: float = option(5.0, "offered load over the cap")
    producers: int = 4


@dataclass(slots=True)
class Figures:
    """The measurements of a run; latencies are the probe's, in seconds."""

    seconds: float
    cap_bytes_per_second: float
    offered_bytes: int = field(default=0, init=False)
    delivered_bytes: int = field(default=0, init=False)
    read_bytes: int = field(default=0, init=False)
    rss_start_mib: float = field(default=0.0, init=False)
    rss_peak_mib: float = field(default=0.0, init=False)
    rss_bound_mib: float = field(default=MEMORY_BOUND_BYTES / MIB, init=False)
    calm_p50_seconds: float = field(default=0.0, init=False)
    overload_p50_seconds: float = field(default=0.0, init=False)
    overload_max_seconds: float = field(default=0.0, init=False)
    relief_seconds: float = field(default=0.0, init=False)
    longest_fetch_gap_seconds: float = field(default=0.0, init=False)
    rebalances: int = field(default=0, init=False)
    producer_errors: dict[str, int] = field(default_factory=dict, init=False)
    problems: list[str] = field(default_factory=list, init=False)


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Load(Worker):
    """A worker that can be stopped without waiting for it."""

    def ask_to_stop(self) -> None:
        """See the class."""
        self._stop.set()


class OverloadRun:
    """A gateway, its clients, and their measurements."""

    def __init__(self, broker: LocalBroker, options: Options) -> None:
        rate = options.cap * options.times / options.producers
        address = broker.bootstrap
        self._broker = broker
        self._seconds = options.seconds
        self._floods = [
            Flood(address, rate, idempotent=n % 2 == 0) for n in range(options.producers)
        ]
        self._members = [Member(address) for _ in range(MEMBERS)]
        self._probe, self._reader = Probe(address), ProbeReader(address)
        self._rss: list[int] = []
        self._figures = Figures(options.seconds, options.cap)

    def run(self) -> Figures:
        """Measure a calm time, a flood, and another calm time."""
        create_topics(self._broker.bootstrap)
        steady = [Load(self._probe), Load(self._reader), *map(Load, self._members)]
        floods = [Load(each) for each in self._floods]
        for worker in steady:
            worker.start()
        try:
            self._watch(CALM_SECONDS, "calm")
            flood_at = time.monotonic()
            for worker in floods:
                worker.start()
            self._watch(self._seconds, "flood")
            relief_at = time.monotonic()
            for worker in floods:
                worker.ask_to_stop()
            self._watch(AFTER_SECONDS, "relief")
        finally:
            for worker in (*floods, *steady):
                worker.finish()
        self._judge(flood_at, relief_at)
        return self._figures

    def _watch(self, seconds: float, phase: str) -> None:
        assert self._broker.process is not None
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._rss.append(rss_bytes(self._broker.process.popen.pid))
            if len(self._rss) % 20 == 0:
                recent = [took for at, took in self._probe.answered if at > now - 10]
                print(
                    f"{phase}: rss {self._rss[-1] / MIB:.0f} MiB, delivered"
                    f" {sum(each.delivered_bytes for each in self._floods) / 1e6:.0f} MB,"
                    f" read {sum(each.read_bytes for each in self._members) / 1e6:.0f} MB,"
                    f" probe {len(recent)} in 10 s, p50 {_middle(recent):.3f} s",
                    file=sys.stderr,
                    flush=True,
                )
            time.sleep(SAMPLE_SECONDS)

    def _judge(self, flood_at: float, relief_at: float) -> None:
        figures = self._figures
        figures.offered_bytes = sum(each.offered_bytes for each in self._floods)
        figures.delivered_bytes = sum(each.delivered_bytes for each in self._floods)
        figures.read_bytes = sum(each.read_bytes for each in self._members)
        figures.rss_start_mib = round(self._rss[0] / MIB, 1)
        figures.rss_peak_mib = round(max(self._rss) / MIB, 1)
        for flood in self._floods:
            for name, count in flood.errors.items():
                figures.producer_errors[name] = figures.producer_errors.get(name, 0) + count
        self._judge_latency(flood_at, relief_at)
        self._judge_readers(flood_at, relief_at)
        if max(self._rss) > MEMORY_BOUND_BYTES:
            figures.problems.append("memory passed its bound")
        if self._probe.errors:
            figures.problems.append(f"{self._probe.errors} records of the probe failed")

    def _judge_latency(self, flood_at: float, relief_at: float) -> None:
        figures = self._figures
        sent = [(at - took, took) for at, took in self._probe.answered]
        calm = [took for at, took in sent if flood_at - CALM_SECONDS / 2 < at < flood_at]
        flooded = [took for at, took in sent if flood_at < at < relief_at]
        figures.calm_p50_seconds = _middle(calm)
        figures.overload_p50_seconds = _middle(flooded)
        figures.overload_max_seconds = round(max(flooded, default=0.0), 3)
        normal = max(figures.calm_p50_seconds * NORMAL_FACTOR, NORMAL_SECONDS)
        slow = [at for at, took in sent if at > relief_at and took > normal]
        figures.relief_seconds = round(max(slow, default=relief_at) - relief_at, 3)
        if figures.relief_seconds > RELIEF_SECONDS:
            figures.problems.append("latency was not back in time")

    def _judge_readers(self, flood_at: float, relief_at: float) -> None:
        figures = self._figures
        reads = [flood_at, *(at for at, _ in self._reader.read if flood_at < at < relief_at)]
        gaps = [late - early for early, late in zip(reads, [*reads[1:], relief_at], strict=True)]
        figures.longest_fetch_gap_seconds = round(max(gaps), 3)
        changes = [at for each in self._members for at in each.changes if at > flood_at]
        figures.rebalances = len(changes)
        if changes or any(each.lost for each in self._members):
            figures.problems.append("members were expired or rebalanced")
        if figures.longest_fetch_gap_seconds > max(
            FETCH_GAP_SECONDS, figures.overload_max_seconds + 1
        ):
            figures.problems.append("fetches were not served")
        for member in self._members:
            figures.problems += [f"a member got {name}" for name in member.errors]


def _middle(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds), 3) if seconds else 0.0


@contextmanager
def throttled(url: str, bytes_per_second: float) -> Generator[str]:
    """Put the proxy before the endpoint in an S3 URL; yield the URL to use instead."""
    before, _, rest = url.partition("endpoint=http://")
    endpoint, _, after = rest.partition("&")
    (port,) = free_ports(1)
    proxy = Path(__file__).resolve().parent / "throttle.py"
    command = [sys.executable, str(proxy), "--listen", str(port), "--to", endpoint]
    command += ["--bytes-per-second", str(bytes_per_second)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"{before}endpoint=http://127.0.0.1:{port}&{after}"
    finally:
        process.terminate()
        process.communicate(timeout=10)


def main(options: Options) -> Result:
    """Run it."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        url = stack.enter_context(seaweed_store(Path(folder)))
        slow = stack.enter_context(throttled(url, options.cap))
        broker = stack.enter_context(running("tidegate", {**SETTINGS, "object.store": slow}))
        assert isinstance(broker, LocalBroker)
        figures = OverloadRun(broker, options).run()
    return Result(not figures.problems, figures=figures)
