"""Prometheus text, made when it is asked for: counting costs the hot path nothing more.

Values are read from the gateway's parts in the event loop, in one go, so that they fit together;
the text is made of them in a thread.  Names are those that jmx_exporter and Strimzi's dashboards
use, where Kafka has the figure, and begin with tidegate_ otherwise.  Series of single partitions
are capped; tidegate_partitions_without_series says how many were left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

import trio
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_runtime.prometheus import render
from tidegate_storage.disk.cache import DiskCache

from ..fetch.object_lender import LenderCounters
from ..gateway import Gateway
from ..produce.wal_counters import WalCounters

# 1000 partitions are 3000 series: a few ms in the loop, and about 40 ms in the thread.
MAX_PARTITION_SERIES: Final = 1000
MAX_TOPIC_SERIES: Final = 1000


async def render_metrics(gateway: Gateway) -> bytes:
    """Return the text of all metrics."""
    return await render(gateway_metrics(gateway))


def gateway_metrics(gateway: Gateway) -> Iterator[Metric]:
    """Take all values of a gateway; those of its state only once it is ready."""
    yield from _process(gateway)
    yield from _requests(gateway)
    yield from _connections(gateway)
    if gateway.is_ready:
        yield _upkeep(gateway)
        yield from _writer(gateway)
        yield from _reader(gateway)
        yield from _zones(gateway)
        yield from _cluster(gateway)
        yield from _forwarding(gateway)
        yield from _zone_reads(gateway)
        yield from _partitions(gateway)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def _process(gateway: Gateway) -> Iterator[Metric]:
    info = GaugeMetricFamily("kafka_server_app_info", "1", labels=["version", "node_id", "zone"])
    me = gateway.identity
    info.add_metric([me.software_version, str(me.node_id), me.zone], 1)
    yield info
    yield _gauge("tidegate_ready", "1 once clients are served", gateway.is_ready)
    yield _gauge("tidegate_draining", "1 while the gateway stops", gateway.is_draining)
    yield _gauge("tidegate_cut_off", "1 while it does not reach its log", gateway.is_cut_off)


def _requests(gateway: Gateway) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests read", labels=["request"]
    )
    for api_key, count in sorted(gateway.counters.requests.items()):
        facts = APIS.get(api_key)
        if facts is None:
            continue  # a number that a client made up must not become a series
        requests.add_metric([facts.name], count)
        if api_key == ApiKey.FETCH:
            requests.add_metric(["FetchConsumer"], count)  # Kafka counts both, dashboards read this
    yield requests
    yield _counter(
        "kafka_server_brokertopicmetrics_totalproducerequests",
        "Produce requests",
        gateway.counters.requests[ApiKey.PRODUCE],
    )
    yield _counter(
        "kafka_server_brokertopicmetrics_totalfetchrequests",
        "Fetch requests",
        gateway.counters.requests[ApiKey.FETCH],
    )
    yield _topic_bytes(gateway)


def _topic_bytes(gateway: Gateway) -> Metric:
    family = CounterMetricFamily(
        "kafka_server_brokertopicmetrics_bytesin", "Bytes of batches produced", labels=["topic"]
    )
    gateway.counters.forget_deleted()
    for topic, size_bytes in gateway.counters.topic_bytes_in.most_common(MAX_TOPIC_SERIES):
        family.add_metric([topic], size_bytes)
    return family


def _connections(gateway: Gateway) -> Iterator[Metric]:
    counts = Counter(each.peer.listener for each in gateway.connections)
    family = GaugeMetricFamily(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections",
        labels=["listener"],
    )
    for endpoint in gateway.identity.endpoints:
        family.add_metric([endpoint.listener], counts[endpoint.listener])
    yield family


def _reader(gateway: Gateway) -> Iterator[Metric]:
    reader = gateway.reader
    reads = reader.reads
    for_all = gateway.lender.counters if gateway.lender is not None else LenderCounters()
    gets, get_bytes = reads.store_reads + for_all.gets, reads.store_bytes + for_all.get_bytes
    yield _counter("tidegate_store_gets", "Range reads of the object store", gets)
    yield _counter("tidegate_store_get_bytes", "Bytes they brought", get_bytes)
    yield _counter("tidegate_store_failed_gets", "Reads it did not answer", reader.failed_reads)
    yield _counter("tidegate_corrupt_runs", "Runs that were damaged", reader.verifier.corrupt_runs)
    unreadable = CounterMetricFamily(
        "tidegate_unreadable_fetches",
        "Fetches of records that are missing or damaged; see `tidegate topic repair TOPIC`",
        labels=["topic", "partition"],
    )
    for (topic, partition), count in sorted(reader.unreadable.counts.items()):
        unreadable.add_metric([topic, str(partition)], count)
    yield unreadable
    if gateway.disk_cache is not None:
        yield from _disk_cache(gateway.disk_cache)


def _disk_cache(cache: DiskCache) -> Iterator[Metric]:
    counters = cache.counters
    prefix = "tidegate_disk_cache"
    yield _gauge(f"{prefix}_used_bytes", "What its files take of the disk", cache.used_bytes)
    for name, help_text, value in (
        ("hits", "Parts of segments that were not in memory, and on disk", counters.hits),
        ("misses", "Parts that were on neither", counters.misses),
        ("writes", "Parts written", counters.writes),
        (
            "skipped_writes",
            "Parts not kept: disk full, broken or too slow",
            counters.skipped_writes,
        ),
        ("damaged_files", "Files that were torn, flipped or cut", counters.damaged_files),
        ("lost_files", "Files that others removed", counters.lost_files),
        ("failures", "Steps that the disk refused", counters.failures),
        ("sent_bytes", "Bytes the kernel sent from files", counters.sent_bytes),
    ):
        yield _counter(f"{prefix}_{name}", help_text, value)


def _upkeep(gateway: Gateway) -> Metric:
    family = CounterMetricFamily(
        "tidegate_upkeep_failures",
        "Steps nobody asked for that failed, and are done again later",
        labels=["step"],
    )
    for step, count in sorted(gateway.upkeep.failures.items()):
        family.add_metric([step], count)
    return family


def _writer(gateway: Gateway) -> Iterator[Metric]:
    counters = gateway.writer.counters
    yield _counter("tidegate_wal_objects", "WAL objects stored", counters.objects)
    yield _counter("tidegate_wal_bytes", "Bytes of WAL objects stored", counters.bytes)
    yield _counter("tidegate_wal_batches", "Batches in them", counters.batches)
    yield _counter("tidegate_wal_abandoned", "WAL objects given up", counters.abandoned)
    yield _counter("tidegate_wal_put_retries", "PUTs that were repeated", counters.put_retries)
    yield _counter("tidegate_wal_put_seconds", "Seconds PUTs took, in all", counters.put_seconds)
    yield from _ages(counters)
    yield _gauge(
        "tidegate_receive_large_bytes", "Large receive buffers in use", gateway.pool.large_bytes
    )
    yield _gauge(
        "tidegate_receive_control_bytes",
        "Receive buffers of large requests that are not Produce",
        gateway.pool.control_bytes,
    )
    yield _gauge(
        "tidegate_large_request_elements",
        "Elements of large requests that are being answered",
        gateway.large_requests.elements,
    )
    yield _gauge(
        "tidegate_cache_used_bytes", "Bytes of objects in memory", gateway.cache.used_bytes
    )
    yield _gauge(
        "tidegate_reply_bytes",
        "Bytes of fetches in memory: unsent replies, and what is read for others",
        gateway.reply_memory.used_bytes,
    )
    yield _counter(
        "tidegate_failed_snapshots",
        "Snapshots of the metadata log that could not be read back",
        gateway.housekeeper.failed_snapshots,
    )
    yield _counter(
        "tidegate_collected_objects",
        "Objects that were deleted",
        gateway.housekeeper.collected_objects,
    )


def _ages(counters: WalCounters) -> Iterator[Metric]:
    """Show whether writing works: /readyz only tells whether clients may connect."""
    for name, help_text, at in (
        ("tidegate_wal_put_age_seconds", "Since a WAL object was last stored", counters.stored_at),
        (
            "tidegate_wal_commit_age_seconds",
            "Since a WAL object was last committed to the metadata log",
            counters.committed_at,
        ),
    ):
        if at is not None:
            yield _gauge(name, help_text, trio.current_time() - at)


def _zones(gateway: Gateway) -> Iterator[Metric]:
    traffic = gateway.traffic
    traffic.book_all(each.peer for each in gateway.connections)
    family = CounterMetricFamily(
        "tidegate_zone_bytes",
        "Bytes of batches, by whether their client is of this gateway's zone",
        labels=["direction", "zone"],
    )
    counts = {"produced": traffic.totals.produced, "fetched": traffic.totals.fetched}
    for direction, by_kind in counts.items():
        for kind, size_bytes in by_kind.items():
            family.add_metric([direction, kind.value], size_bytes)
    yield family
    yield _counter(
        "tidegate_zone_moved_fetches",
        "Partitions whose consumers were sent to their own zone",
        gateway.steering.moved,
    )
    yield _counter(
        "tidegate_zone_without_gateway",
        "Answers to clients of zones that have no gateway",
        gateway.cluster_view.without_gateway,
    )


def _cluster(gateway: Gateway) -> Iterator[Metric]:
    state = gateway.coordinator.state
    gateways = state.gateways.brokers()
    is_first = bool(gateways) and gateways[0].incarnation == gateway.coordinator.incarnation
    topics, partitions = len(state.topics.by_id), len(state.partitions)
    for name, help_text, value in (
        ("kafka_controller_kafkacontroller_activecontrollercount", "1 at one gateway", is_first),
        ("kafka_controller_kafkacontroller_activebrokercount", "Live gateways", len(gateways)),
        ("kafka_controller_kafkacontroller_globaltopiccount", "Topics", topics),
        ("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions", partitions),
        ("kafka_controller_kafkacontroller_offlinepartitionscount", "Always 0", 0),
        ("kafka_server_replicamanager_partitioncount", "Partitions served here", partitions),
        ("kafka_server_replicamanager_underreplicatedpartitions", "Always 0", 0),
        ("kafka_server_replicamanager_underminisrpartitioncount", "Always 0", 0),
        ("kafka_server_replicamanager_offlinereplicacount", "Always 0", 0),
        ("kafka_server_groupmetadatamanager_numgroups", "Groups", len(state.groups)),
        ("tidegate_log_position", "Position of the metadata log folded here", state.position),
        ("tidegate_log_time_seconds", "Log time, since 1970", state.log_time_ms / 1000),
        ("tidegate_backup_position", "Position copied", gateway.backup.status.position),
        (
            "tidegate_backup_time_seconds",
            "When the log was last backed up, since 1970; 0: not since the start",
            gateway.backup.status.time_ms / 1000,
        ),
        ("tidegate_objects", "Objects the metadata log knows", len(state.objects)),
        ("tidegate_segments", "Those that are segments", state.objects.segment_count),
        ("tidegate_dead_objects", "Those that wait to be deleted", len(state.objects.dead)),
    ):
        yield _gauge(name, help_text, value)
    yield _counter(
        "tidegate_log_lost_conflicts",
        "Appends that another gateway was faster with",
        gateway.coordinator.lost_conflicts,
    )


def _forwarding(gateway: Gateway) -> Iterator[Metric]:
    """Who appends for whom: only where gateways forward."""
    forwarder = gateway.coordinator.route
    if not isinstance(forwarder, Forwarder):
        return
    counters = forwarder.counters
    service = gateway.peer_service
    leads = bool(forwarder.leadership.leading)
    handovers = forwarder.contention.handovers if forwarder.contention else 0
    yield _gauge("tidegate_forwarding_leader", "1 while it appends for the others", leads)
    for name, help_text, value in (
        ("leaderships", "Times it began to append for the others", forwarder.leadership.count),
        ("handovers", "Times it lost too many races to append by itself", handovers),
        ("asked", "Questions sent to who appends", counters.asked),
        ("proposals", "Proposals in them", counters.proposals),
        ("unanswered", "Questions without an answer", counters.unanswered),
        ("served", "Proposals of others", service.proposals.served if service else 0),
    ):
        yield _counter(f"tidegate_forwarding_{name}", help_text, value)


def _zone_reads(gateway: Gateway) -> Iterator[Metric]:
    """What gateways of a zone read for each other."""
    service = gateway.peer_service
    if gateway.zone_reads is None or service is None:
        return
    counters = gateway.zone_reads.counters
    for name, help_text, value in (
        ("asked", "Ranges of objects that another gateway was asked for", counters.asked),
        ("hits", "Those it gave", counters.hits),
        ("hit_bytes", "Bytes it gave", counters.hit_bytes),
        ("fallbacks", "Those that the store was asked for then", counters.fallbacks),
        ("damaged", "Those given that were not as stored", counters.damaged),
        ("served", "Ranges given to other gateways", service.objects.served),
        ("served_bytes", "Bytes given to them", service.objects.served_bytes),
    ):
        yield _counter(f"tidegate_peer_reads_{name}", help_text, value)


def _partitions(gateway: Gateway) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=labels)
    end = GaugeMetricFamily("kafka_log_log_logendoffset", "Next offset", labels=labels)
    size = GaugeMetricFamily("kafka_log_log_size", "Bytes of live batches", labels=labels)
    shown = 0
    for topic, partition in islice(_by_topic(gateway), MAX_PARTITION_SERIES):
        names = [topic, str(partition.index)]
        start.add_metric(names, partition.log_start)
        end.add_metric(names, partition.next_offset)
        size.add_metric(names, partition.size_bytes)
        shown += 1
    yield from (start, end, size)
    yield _gauge(
        "tidegate_partitions_without_series",
        "Partitions past the cap on series",
        len(gateway.coordinator.state.partitions) - shown,
    )


def _by_topic(gateway: Gateway) -> Iterator[tuple[str, Partition]]:
    state = gateway.coordinator.state
    for name, topic in state.topics.by_name.items():
        for number in topic.partition_numbers:
            yield name, state.partitions[number]
