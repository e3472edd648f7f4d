"""Manual replica assignments: checked as Kafka checks them, then only counted.

Any gateway serves any partition, so an assignment has no other effect: its length is kept as the
replication factor.  The brokers in an assignment must be live, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def wrong_assignments(
    assignments: Sequence[Sequence[int]], live_node_ids: Collection[int]
) -> str | None:
    """Return the error of replica lists, or None."""
    for replicas in assignments:
        text = _wrong_list(replicas, live_node_ids)
        if text is not None:
            return text
        if len(replicas) != len(assignments[0]):
            return (
                f"The manual partition assignment includes a partition with {len(replicas)}"
                " replica(s), but this is not consistent with previous partitions, which have"
                f" {len(assignments[0])} replica(s)."
            )
    return None


def wrong_indexes(assignments: Mapping[int, Sequence[int]]) -> str | None:
    """Return the error of the partition numbers of a new topic's assignments, or None."""
    if sorted(assignments) != list(range(len(assignments))):
        return "partitions should be a consecutive 0-based integer sequence"
    return None


def _wrong_list(replicas: Sequence[int], live_node_ids: Collection[int]) -> str | None:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    seen: set[int] = set()
    for node_id in replicas:
        if node_id in seen:
            return f"The manual partition assignment includes the broker {node_id} more than once."
        if node_id not in live_node_ids:
            return (
                f"The manual partition assignment includes broker {node_id}, but no such broker is"
                " registered."
            )
        seen.add(node_id)
    return None
