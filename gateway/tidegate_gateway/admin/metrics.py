"""The metrics of a gateway as Prometheus text, made for each request of the page.

So metrics cost the hot path only its counters.  If Kafka has the figure, the name is the one that
jmx_exporter and Strimzi's dashboards use; otherwise it begins with tidegate_.  The number of series
has a bound: what is beyond it is in a series of its own, or counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import trio
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_runtime.output_metrics import output_metrics
from tidegate_runtime.prometheus import Break, Family, Series, label, line, render
from tidegate_storage.disk.cache import DiskCache

from ..environment import Identity
from ..fetch.object_lender import LenderCounters
from ..gateway import Gateway
from ..gateway_counters import GatewayCounters
from ..network.connection import Connection
from ..produce.wal_counters import WalCounters
from ..security.sasl.gates import SaslGates
from .audit_metrics import audit_metrics
from .client_metrics import client_metrics
from .cluster_metrics import cluster_metrics, is_controller
from .door_metrics import door_metrics
from .families import counter, gauge
from .group_metrics import group_metrics
from .link_metrics import link_metrics
from .oauth_metrics import oauth_metrics
from .partition_metrics import partition_metrics
from .pool_metrics import pool_metrics
from .quota_metrics import quota_metrics
from .request_metrics import load_metrics, request_metrics, slow_metric, time_metrics
from .tls_metrics import tls_metrics
from .topic_metrics import topic_metrics
from .transaction_metrics import transaction_metrics

# The clients choose what they say of their software.
MAX_SOFTWARE_SERIES: Final = 100


async def render_metrics(gateway: Gateway) -> bytes:
    """Return the text of all metrics."""
    return await render(gateway_metrics(gateway))


async def render_cluster(gateway: Gateway) -> bytes:
    """Return the text of what is true of the cluster, whichever gateway is asked."""
    return await render(facts_of_cluster(gateway), of_process=False)


def gateway_metrics(gateway: Gateway) -> Iterator[Family | Break]:
    """Yield all values of a gateway; those of a Series are read when its lines are made."""
    now = trio.current_time()
    yield _info(gateway.identity)
    yield from _standing(
        is_ready=True,
        is_draining=gateway.is_draining,
        is_cut_off=gateway.is_cut_off,
        is_store_cut_off=gateway.store_way.is_cut_off,
    )
    yield from request_metrics(gateway.counters)
    yield slow_metric(gateway.slow_requests)
    yield from time_metrics(gateway, now)
    yield from load_metrics(gateway)
    yield from topic_metrics(gateway, now)
    yield _connections(gateway.identity, gateway.connections)
    yield _software(gateway.connections)
    yield from _authentications(gateway.gates)
    yield from door_metrics(gateway.doors)
    yield from pool_metrics(gateway.pools)
    yield _upkeep(gateway)
    yield from _writer(gateway)
    yield from _reader(gateway)
    yield from _zones(gateway)
    yield from cluster_metrics(gateway)
    yield from transaction_metrics(gateway)
    yield from link_metrics(gateway)
    yield from quota_metrics(gateway)
    yield from _forwarding(gateway)
    yield from _zone_reads(gateway)
    yield from tls_metrics(gateway.tls)
    yield from oauth_metrics(gateway.provider_keys)
    yield from client_metrics(gateway)
    yield from output_metrics()
    yield from audit_metrics(gateway.audit)
    if is_controller(gateway):
        yield from facts_of_cluster(gateway)


def facts_of_cluster(gateway: Gateway) -> Iterator[Family | Break]:
    """Yield partitions and groups.  One gateway at a time has them among its own metrics."""
    yield from partition_metrics(gateway)
    yield from group_metrics(gateway)


def starting_metrics(identity: Identity) -> Iterator[Metric]:
    """Yield the values of a gateway that has not started: it has served nothing."""
    yield _info(identity)
    yield from _standing(
        is_ready=False, is_draining=False, is_cut_off=False, is_store_cut_off=False
    )
    yield from request_metrics(GatewayCounters())
    yield _connections(identity, ())
    yield from output_metrics()


def _info(me: Identity) -> Metric:
    info = GaugeMetricFamily("kafka_server_app_info", "1", labels=["version", "node_id", "zone"])
    info.add_metric([me.software_version, str(me.node_id), me.zone], 1)
    return info


def _standing(
    *, is_ready: bool, is_draining: bool, is_cut_off: bool, is_store_cut_off: bool
) -> Iterator[Metric]:
    yield gauge("tidegate_ready", "1 once clients are served", is_ready)
    yield gauge("tidegate_draining", "1 while the gateway stops or drains", is_draining)
    yield gauge("tidegate_cut_off", "1 while cut off from the metadata log", is_cut_off)
    yield gauge(
        "tidegate_store_cut_off",
        "1 while cut off from the object store, which others reach",
        is_store_cut_off,
    )


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


def _software(connections: Iterable[Connection]) -> Series:
    """Return the software of the clients, as they tell it; that of few connections is _other."""
    counts = Counter((each.peer.listener, *each.peer.software) for each in connections)
    name = "kafka_server_socket_server_metrics_connections_software"
    lines: list[str] = []
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_SOFTWARE_SERIES]
    for (listener, software, version), count in most:
        lines.append(line(name, _software_labels(listener, software, version), count))
        del counts[listener, software, version]
    if counts:
        lines.append(line(name, _software_labels("_other", "_other", "_other"), counts.total()))
    return Series(name, "Open connections, by their clients' software", "gauge", lines)


def _software_labels(listener: str, software: str, version: str) -> str:
    texts = [each or "unknown" for each in (software, version)]
    names = ("clientSoftwareName", "clientSoftwareVersion")
    return ",".join([*map(label, names, texts), label("listener", listener)])


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
    yield counter(
        "tidegate_wal_left_batches",
        "Batches that were not written, as their clients had left, or send an earlier one again",
        counters.left_batches,
    )
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
