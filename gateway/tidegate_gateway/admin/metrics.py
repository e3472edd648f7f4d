"""The metrics of a gateway as Prometheus text, made for each request of the page.

So metrics cost the hot path only its counters.  The event loop reads the values from the gateway's
parts without a checkpoint, so that they are consistent; a thread makes the text.  If Kafka has the
figure, the name is the one that jmx_exporter and Strimzi's dashboards use; otherwise it begins with
tidegate_.  Series of single partitions are capped; tidegate_partitions_without_series counts the
partitions without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

import trio
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_runtime.prometheus import render
from tidegate_storage.disk.cache import DiskCache

from ..environment import Identity
from ..fetch.object_lender import LenderCounters
from ..gateway import Gateway
from ..gateway_counters import GatewayCounters
from ..network.connection import Connection
from ..produce.wal_counters import WalCounters
from ..security.sasl.gates import SaslGates
from .families import counter, gauge
from .link_metrics import link_metrics
from .oauth_metrics import oauth_metrics
from .quota_metrics import quota_metrics
from .tls_metrics import tls_metrics
from .transaction_metrics import transaction_metrics

# 1000 partitions are 3000 series: a few ms in the loop, and about 40 ms in the thread.
MAX_PARTITION_SERIES: Final = 1000
MAX_TOPIC_SERIES: Final = 1000


async def render_metrics(gateway: Gateway) -> bytes:
    """Return the text of all metrics."""
    return await render(gateway_metrics(gateway))


def gateway_metrics(gateway: Gateway) -> Iterator[Metric]:
    """Yield all values of a gateway."""
    yield _info(gateway.identity)
    yield from _standing(
        is_ready=True, is_draining=gateway.is_draining, is_cut_off=gateway.is_cut_off
    )
    yield from _requests(gateway.counters)
    yield _connections(gateway.identity, gateway.connections)
    yield from _authentications(gateway.gates)
    yield gauge(
        "tidegate_strangers",
        "Connections whose clients are not authenticated yet",
        len(gateway.strangers),
    )
    yield counter(
        "tidegate_strangers_closed",
        "Connections that were closed unauthenticated, since others came",
        gateway.strangers.closed,
    )
    yield _upkeep(gateway)
    yield from _writer(gateway)
    yield from _reader(gateway)
    yield from _zones(gateway)
    yield from _cluster(gateway)
    yield from transaction_metrics(gateway)
    yield from link_metrics(gateway)
    yield from quota_metrics(gateway)
    yield from _forwarding(gateway)
    yield from _zone_reads(gateway)
    yield from tls_metrics(gateway.tls)
    yield from oauth_metrics(gateway.provider_keys)
    yield from _partitions(gateway)


def starting_metrics(identity: Identity) -> Iterator[Metric]:
    """Yield the values of a gateway that has not started: it has served nothing."""
    yield _info(identity)
    yield from _standing(is_ready=False, is_draining=False, is_cut_off=False)
    yield from _requests(GatewayCounters())
    yield _connections(identity, ())


def _info(me: Identity) -> Metric:
    info = GaugeMetricFamily("kafka_server_app_info", "1", labels=["version", "node_id", "zone"])
    info.add_metric([me.software_version, str(me.node_id), me.zone], 1)
    return info


def _standing(*, is_ready: bool, is_draining: bool, is_cut_off: bool) -> Iterator[Metric]:
    yield gauge("tidegate_ready", "1 once clients are served", is_ready)
    yield gauge("tidegate_draining", "1 while the gateway stops or drains", is_draining)
    yield gauge("tidegate_cut_off", "1 while cut off from the metadata log", is_cut_off)


def _requests(counters: GatewayCounters) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests read", labels=["request"]
    )
    for api_key, count in sorted(counters.requests.items()):
        facts = APIS.get(api_key)
        if facts is None:
            continue  # an API key that a client invented must not become a series
        requests.add_metric([facts.name], count)
        if api_key == ApiKey.FETCH:
            requests.add_metric(["FetchConsumer"], count)  # as Kafka; dashboards read this one
    yield requests
    yield counter(
        "kafka_server_brokertopicmetrics_totalproducerequests",
        "Produce requests",
        counters.requests[ApiKey.PRODUCE],
    )
    yield counter(
        "kafka_server_brokertopicmetrics_totalfetchrequests",
        "Fetch requests",
        counters.requests[ApiKey.FETCH],
    )
    yield _topic_bytes(counters)


def _topic_bytes(counters: GatewayCounters) -> Metric:
    family = CounterMetricFamily(
        "kafka_server_brokertopicmetrics_bytesin", "Bytes of batches produced", labels=["topic"]
    )
    counters.forget_deleted()
    for topic, size_bytes in counters.topic_bytes_in.most_common(MAX_TOPIC_SERIES):
        family.add_metric([topic], size_bytes)
    return family


def _connections(me: Identity, connections: Collection[Connection]) -> Metric:
    counts = Counter(each.peer.listener for each in connections)
    family = GaugeMetricFamily(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections",
        labels=["listener"],
    )
    for endpoint in me.endpoints:
        family.add_metric([endpoint.listener], counts[endpoint.listener])
    return family


def _authentications(gates: SaslGates) -> Iterator[Metric]:
    tally = gates.tally
    for name, text, counts in (
        ("successful_authentication", "Authentications, also repeated ones", tally.succeeded),
        ("failed_authentication", "Failed authentications", tally.failed),
        ("expired_connections_killed", "Connections closed after their session", tally.expired),
    ):
        name = f"kafka_server_socket_server_metrics_{name}"
        family = CounterMetricFamily(name, text, labels=["listener"])
        for listener in gates.listeners:
            family.add_metric([listener], counts[listener])
        yield family


def _reader(gateway: Gateway) -> Iterator[Metric]:
    reader = gateway.reader
    reads = reader.reads
    for_all = gateway.lender.counters if gateway.lender is not None else LenderCounters()
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
    if gateway.disk_cache is not None:
        yield from _disk_cache(gateway.disk_cache)


def _disk_cache(cache: DiskCache) -> Iterator[Metric]:
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


def _upkeep(gateway: Gateway) -> Metric:
    family = CounterMetricFamily(
        "tidegate_upkeep_failures",
        "Background steps that failed and are repeated",
        labels=["step"],
    )
    for step, count in sorted(gateway.upkeep.failures.items()):
        family.add_metric([step], count)
    return family


def _writer(gateway: Gateway) -> Iterator[Metric]:
    counters = gateway.writer.counters
    yield counter("tidegate_wal_objects", "WAL objects stored", counters.objects)
    yield counter("tidegate_wal_bytes", "Bytes of WAL objects stored", counters.bytes)
    yield counter("tidegate_wal_batches", "Batches of WAL objects stored", counters.batches)
    yield counter("tidegate_wal_abandoned", "WAL objects abandoned", counters.abandoned)
    yield counter("tidegate_wal_put_retries", "PUTs that were repeated", counters.put_retries)
    yield counter("tidegate_wal_put_seconds", "Seconds PUTs took, in all", counters.put_seconds)
    yield from _ages(counters)
    yield gauge(
        "tidegate_receive_large_bytes", "Large receive buffers in use", gateway.pool.large_bytes
    )
    yield gauge(
        "tidegate_receive_control_bytes",
        "Receive buffers of large requests that are not Produce",
        gateway.pool.control_bytes,
    )
    yield gauge(
        "tidegate_large_request_elements",
        "Elements of large requests that are being answered",
        gateway.large_requests.elements,
    )
    yield gauge("tidegate_cache_used_bytes", "Bytes of objects in memory", gateway.cache.used_bytes)
    yield gauge(
        "tidegate_reply_bytes",
        "Bytes of fetches in memory: unsent replies, and reads for other gateways",
        gateway.reply_memory.used_bytes,
    )
    yield counter(
        "tidegate_failed_snapshots",
        "Snapshots of the metadata log that could not be read back",
        gateway.housekeeper.failed_snapshots,
    )
    yield counter(
        "tidegate_collected_objects",
        "Objects that were deleted",
        gateway.housekeeper.collected_objects,
    )


def _ages(counters: WalCounters) -> Iterator[Metric]:
    """Show whether writes succeed: /readyz only shows whether clients may connect."""
    for name, help_text, at in (
        (
            "tidegate_wal_put_age_seconds",
            "Seconds since a WAL object was last stored",
            counters.stored_at,
        ),
        (
            "tidegate_wal_commit_age_seconds",
            "Seconds since a WAL object was last committed to the metadata log",
            counters.committed_at,
        ),
    ):
        if at is not None:
            yield gauge(name, help_text, trio.current_time() - at)


def _zones(gateway: Gateway) -> Iterator[Metric]:
    traffic = gateway.traffic
    traffic.book_all(each.peer for each in gateway.connections)
    family = CounterMetricFamily(
        "tidegate_zone_bytes",
        "Bytes of batches; zone: whether their client is in this gateway's zone",
        labels=["direction", "zone"],
    )
    counts = {"produced": traffic.totals.produced, "fetched": traffic.totals.fetched}
    for direction, by_kind in counts.items():
        for kind, size_bytes in by_kind.items():
            family.add_metric([direction, kind.value], size_bytes)
    yield family
    yield counter(
        "tidegate_zone_moved_fetches",
        "Partitions whose consumers were sent to their own zone",
        gateway.steering.moved,
    )
    yield counter(
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
        ("tidegate_backup_position", "Position of the last backup", gateway.backup.status.position),
        (
            "tidegate_backup_time_seconds",
            "Time of the log's last backup, since 1970; 0: none since the gateway's start",
            gateway.backup.status.time_ms / 1000,
        ),
        ("tidegate_objects", "Objects the metadata log knows", len(state.objects)),
        ("tidegate_segments", "Objects that are segments", state.objects.segment_count),
        ("tidegate_dead_objects", "Objects that wait for deletion", len(state.objects.dead)),
    ):
        yield gauge(name, help_text, value)
    yield counter(
        "tidegate_log_lost_conflicts",
        "Appends that got CONFLICT, since another gateway's entry was first",
        gateway.coordinator.lost_conflicts,
    )


def _forwarding(gateway: Gateway) -> Iterator[Metric]:
    """Figures of forwarding; nothing if this gateway does not forward."""
    forwarder = gateway.coordinator.route
    if not isinstance(forwarder, Forwarder):
        return
    counters = forwarder.counters
    leads = bool(forwarder.leadership.leading)
    handovers = forwarder.contention.handovers if forwarder.contention else 0
    yield gauge("tidegate_forwarding_leader", "1 while this gateway is the leader", leads)
    for name, help_text, value in (
        ("leaderships", "Times this gateway became the leader", forwarder.leadership.count),
        ("handovers", "Times it handed over to a leader after lost appends", handovers),
        ("asked", "Questions sent to the leader", counters.asked),
        ("proposals", "Proposals in these questions", counters.proposals),
        ("unanswered", "Questions without an answer", counters.unanswered),
        ("served", "Proposals of other gateways", gateway.peer_service.proposals.served),
    ):
        yield counter(f"tidegate_forwarding_{name}", help_text, value)


def _zone_reads(gateway: Gateway) -> Iterator[Metric]:
    """Figures of the reads that gateways of a zone do for each other."""
    if gateway.zone_reads is None:
        return
    lent = gateway.peer_service.objects
    counters = gateway.zone_reads.counters
    for name, help_text, value in (
        ("asked", "Ranges of objects that another gateway was asked for", counters.asked),
        ("hits", "Ranges that another gateway gave", counters.hits),
        ("hit_bytes", "Bytes that another gateway gave", counters.hit_bytes),
        ("fallbacks", "Ranges that were read from the store instead", counters.fallbacks),
        ("damaged", "Ranges given that were not as stored", counters.damaged),
        ("served", "Ranges given to other gateways", lent.served),
        ("served_bytes", "Bytes given to them", lent.served_bytes),
    ):
        yield counter(f"tidegate_peer_reads_{name}", help_text, value)


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
    yield gauge(
        "tidegate_partitions_without_series",
        "Partitions past the cap on series",
        len(gateway.coordinator.state.partitions) - shown,
    )


def _by_topic(gateway: Gateway) -> Iterator[tuple[str, Partition]]:
    state = gateway.coordinator.state
    for name, topic in state.topics.by_name.items():
        for number in topic.partition_numbers:
            yield name, state.partitions[number]
