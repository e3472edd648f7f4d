"""The metrics of reads from the object store, and of the caches in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from tidegate_runtime.prometheus import counter, gauge
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.range_cache import RangeCache

from ..network.reply_memory import ReplyMemory
from .lending.object_lender import LenderCounters, ObjectLender
from .log_reader import LogReader


def read_metrics(
    reader: LogReader,
    lender: ObjectLender | None,
    cache: RangeCache[object],
    replies: ReplyMemory,
) -> Iterator[Metric]:
    """Yield the metrics of reads from the object store, and of the memory for their bytes."""
    reads = reader.reads
    for_all = lender.counters if lender is not None else LenderCounters()
    gets, get_bytes = reads.store_reads + for_all.gets, reads.store_bytes + for_all.get_bytes
    yield counter("tidegate_store_gets", "Range reads of the object store", gets)
    yield counter("tidegate_store_get_bytes", "Bytes of range reads", get_bytes)
    yield counter("tidegate_store_failed_gets", "Range reads that failed", reader.failed_reads)
    yield counter("tidegate_corrupt_runs", "Runs that were damaged", reader.verifier.corrupt_runs)
    unreadable = CounterMetricFamily(
        "tidegate_unreadable_fetches",
        "Fetches of records that are missing or damaged; see `tidegate topic repair TOPIC`",
        labels=["topic", "partition"],
    )
    for (topic, partition), count in sorted(reader.unreadable.counts.items()):
        unreadable.add_metric([topic, str(partition)], count)
    yield unreadable
    yield gauge("tidegate_cache_used_bytes", "Bytes of objects in memory", cache.used_bytes)
    yield gauge(
        "tidegate_reply_bytes",
        "Bytes of fetches in memory: unsent replies, and reads for other gateways",
        replies.used_bytes,
    )


def disk_cache_metrics(cache: DiskCache) -> Iterator[Metric]:
    """Yield the metrics of the disk cache."""
    counters = cache.counters
    prefix = "tidegate_disk_cache"
    yield gauge(f"{prefix}_used_bytes", "Bytes of its files on disk", cache.used_bytes)
    for name, help_text, value in (
        ("hits", "Parts of segments that were on disk and not in memory", counters.hits),
        ("misses", "Parts that were neither on disk nor in memory", counters.misses),
        ("writes", "Parts written", counters.writes),
        (
            "skipped_writes",
            "Parts not kept: disk full, broken or too slow",
            counters.skipped_writes,
        ),
        ("damaged_files", "Files that were torn, flipped or cut", counters.damaged_files),
        ("lost_files", "Files that another program removed", counters.lost_files),
        ("failures", "Steps that the disk refused", counters.failures),
        ("sent_bytes", "Bytes the kernel sent from files", counters.sent_bytes),
    ):
        yield counter(f"{prefix}_{name}", help_text, value)
