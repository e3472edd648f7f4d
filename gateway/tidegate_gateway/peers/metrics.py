"""The metrics of forwarding, and of the reads that gateways do for each other."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from tidegate_coordination.coordinator.route import Route
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_runtime.prometheus import counter, gauge

from ..fetch.lending.zone_reads import ZoneReads
from .peer_service import PeerService


def forwarding_metrics(forwarder: Route, service: PeerService) -> Iterator[Metric]:
    """Yield the metrics of forwarding; none if this gateway does not forward."""
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
        ("served", "Proposals of other gateways", service.proposals.served),
    ):
        yield counter(f"tidegate_forwarding_{name}", help_text, value)


def peer_read_metrics(reads: ZoneReads | None, service: PeerService) -> Iterator[Metric]:
    """Yield the metrics of the reads that gateways of a zone do for each other."""
    if reads is None:
        return
    lent, counters = service.objects, reads.counters
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
