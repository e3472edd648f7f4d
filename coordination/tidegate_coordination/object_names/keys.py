"""The key, in the object store, of an object that the state names."""

from __future__ import annotations

from tidegate_storage.objects.keys import segment_key, wal_key

from ..state.cluster import ClusterState
from ..state.records.objects import ObjectName, WalName


def object_key(state: ClusterState, name: ObjectName) -> str:
    """Return the key of a WAL object or a segment.

    Raises:
      KeyError: its incarnation is not known.
    """
    node_id, zone = state.gateways.homes[name.incarnation]
    timeline = state.timelines.of(name.incarnation, state.timeline)
    if isinstance(name, WalName):
        return wal_key(state.cluster_id, timeline, zone, node_id, name.incarnation, name.counter)
    return segment_key(
        state.cluster_id,
        timeline,
        name.topic_id,
        name.partition,
        name.base_offset,
        name.incarnation,
        name.attempt,
    )
