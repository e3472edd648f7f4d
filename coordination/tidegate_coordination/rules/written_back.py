"""How far a switched topic has been written back to its source; see migration/returns.py."""

from __future__ import annotations

from ..state.cluster import ClusterState
from ..state.records.partitions import Partition


def reached_of(state: ClusterState, partition: Partition) -> int | None:
    """Return the offset up to which a partition is written back; None if its topic is not."""
    switched = state.switches.switched.get(partition.topic_id)
    if switched is None or partition.index >= len(switched.reached):
        return None
    return switched.reached[partition.index]
