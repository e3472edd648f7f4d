"""The sources of the bench's figures: /proc, the metrics page, the output of Java's tools."""

from __future__ import annotations

import os
import subprocess
import sys

from tidegate_bench.brokers.slices import entries
from tidegate_bench.brokers.worlds import on_cores
from tidegate_bench.clients.java import parse
from tidegate_bench.measure import proc
from tidegate_bench.measure.samples import Eyes, Sample, between, look, sums_of
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.state.cluster import ClusterState


def test_cpu_time_of_a_process() -> None:
    before = proc.cpu_seconds(os.getpid())
    times = os.times()
    assert abs(before - times.user - times.system) < 0.5
    while proc.cpu_seconds(os.getpid()) < before + 0.05:
        pass  # the CPU time grows


def test_the_cpu_of_a_broker_is_that_of_all_its_processes() -> None:
    own = os.getpid()
    once, twice = (look(Eyes(own, None, None, more), first=True) for more in ((), (own,)))
    assert once.server_cpu
    assert twice.server_cpu
    assert twice.server_cpu >= 2 * once.server_cpu


def test_a_broker_may_be_kept_to_some_cores() -> None:
    before = os.sched_getaffinity(0)
    with on_cores(1):
        code = "import os; print(len(os.sched_getaffinity(0)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"1"
    assert os.sched_getaffinity(0) == before


def test_memory_of_a_process() -> None:
    """Measure a fresh process: this one may have freed memory to spare."""
    code = "held = bytes(range(256)) * 200_000; print(len(held), flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        held = int(popen.stdout.readline())
        assert held < proc.rss_bytes(popen.pid) < 3 * held
        popen.kill()


def test_children_of_a_process() -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as popen:
        assert popen.pid in proc.children(os.getpid())
        popen.kill()
    assert popen.pid not in proc.children(os.getpid())


def test_a_metrics_page_is_added_up_over_labels() -> None:
    text = (
        "# HELP requests_total Requests read\n"
        'requests_total{request="Fetch"} 2.0\n'
        'requests_total{request="FetchConsumer"} 2.0\n'
        'requests_total{request="Produce"} 3.0\n'
        "tidegate_wal_objects_total 1e+03\n"
    )
    assert sums_of(text) == {"requests_total": 5.0, "tidegate_wal_objects_total": 1000.0}


def test_use_between_two_samples() -> None:
    before = Sample(1.0, 2.0, None, {"tidegate_wal_objects_total": 10.0})
    after = Sample(5.0, 2.5, 3.0, {"tidegate_wal_objects_total": 14.0})
    seen = between(Eyes(), before, after, payload_bytes=7, seconds=3.0)
    assert (seen.server_cpu, seen.store_cpu, seen.puts, seen.gets) == (0.5, None, 4.0, None)
    assert (seen.payload_bytes, seen.seconds, seen.rss_bytes) == (7, 3.0, None)


def test_output_of_the_producer_tool() -> None:
    text = (
        "1000 records sent, 200.0 records/sec (0.20 MB/sec), 1.0 ms avg latency, "
        "9.0 ms max latency.\n"
        "5000 records sent, 2500.0 records/sec (2.44 MB/sec), 4.50 ms avg latency, "
        "90.00 ms max latency, 3 ms 50th, 5 ms 95th, 7 ms 99th, 80 ms 99.9th.\n"
    )
    printed = parse("ProducerPerformance", text)
    assert printed is not None
    assert printed.told == {"payload_bytes": 5_120_000, "seconds": 2.0, "records": 5000}
    assert printed.figures == {"p50 ms": 3.0, "p99 ms": 7.0, "p99.9 ms": 80.0}
    assert parse("ProducerPerformance", "it failed") is None


def test_output_of_the_consumer_tool() -> None:
    text = (
        "a warning\n"
        "2026-11-21 16:00:00:123, 2026-11-21 16:00:03:456, 10.0000, 3.0, 10240, 3072.0, "
        "1333, 2000, 5.0, 5120.0\n"
    )
    printed = parse("ConsumerPerformance", text)
    assert printed is not None
    assert printed.told == {"payload_bytes": 10 << 20, "seconds": 2.0, "records": 10240}
    assert parse("ConsumerPerformance", "") is None


def test_output_of_the_end_to_end_tool() -> None:
    text = "0\t5.0\nAvg latency: 1.3334 ms\nPercentiles: 50th = 1, 99th = 7, 99.9th = 12\n"
    printed = parse("EndToEndLatency", text)
    assert printed is not None
    assert printed.figures == {
        "p50 ms": 1.0,
        "p99 ms": 7.0,
        "p99.9 ms": 12.0,
        "average ms": 1.3334,
    }
    assert parse("EndToEndLatency", "Avg latency: 1 ms") is None


def test_a_log_full_of_slices_folds() -> None:
    state = ClusterState()
    for position, payload in enumerate(entries(2_000), start=1):
        state.apply(position, decode_entry(payload, position))
    assert sum(len(each.runs) for each in state.partitions.values()) == 2_000
