"""Metrics of links to classic clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.prometheus import counter, gauge

from .forward.groups import GroupForwards
from .forward.transactions import TransactionForwards
from .forward.writes import Forwards
from .links import Links
from .report import LinkFigures, figures

_BY_LINK: Final = (
    ("tidegate_link_up", "1 while this gateway reaches the link's source", "is_up"),
    ("tidegate_link_partitions", "Partitions that this gateway mirrors", "partitions"),
    ("tidegate_link_stuck_partitions", "Partitions that do not go on, either way", "stuck"),
    (
        "tidegate_link_lag_records",
        "Offsets of the source that are not here yet, of the partitions of this gateway",
        "lag_records",
    ),
    (
        "tidegate_link_reverse_lag_records",
        "Offsets that this gateway still has to write back to the source",
        "reverse_lag_records",
    ),
    (
        "tidegate_link_refused_topics",
        "Topics of the source that cannot be mirrored, at the gateway that looks",
        "refused",
    ),
    (
        "tidegate_link_stray_records",
        "Records that the source has beyond the switch of their topics, at the gateway that looks",
        "strays",
    ),
)


def link_metrics(
    state: ClusterState,
    links: Links,
    forwards: Forwards,
    groups: GroupForwards,
    ids: TransactionForwards,
) -> Iterator[Metric]:
    """Yield the metrics of links.  forwards: writes.  groups, ids: other requests."""
    found = list(figures(links, state))
    for name, help_text, attribute in _BY_LINK:
        yield _of_links(name, help_text, attribute, found)
    yield counter(
        "tidegate_link_forwarded_bytes",
        "Bytes of batches that were forwarded to sources",
        forwards.forwarded_bytes,
    )
    yield gauge(
        "tidegate_link_forwards_waiting",
        "Produce requests that wait for a switch of their topic, for room or for the source",
        forwards.waiting,
    )
    yield counter(
        "tidegate_link_group_requests",
        "Requests of consumer groups and transactional ids that were forwarded to sources",
        groups.forwarded + ids.forwarded,
    )
    yield gauge(
        "tidegate_link_group_requests_open",
        "Those that wait for the source",
        groups.open + ids.open,
    )
    held = links.held
    yield counter("tidegate_link_copied_bytes", "Bytes of mirrored batches", held.copied_bytes)
    yield gauge(
        "tidegate_link_held_bytes", "Bytes of mirrored batches not committed yet", held.held
    )


def _of_links(name: str, help_text: str, attribute: str, found: Sequence[LinkFigures]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=["link"])
    for each in found:
        family.add_metric([each.name], float(getattr(each, attribute)))
    return family
