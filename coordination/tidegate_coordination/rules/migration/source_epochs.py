"""Leader epochs that a source began where its copies end, when their topics change sides.

If a leader was elected there and has got no batch since, no copy has its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...events.links import EpochBegan
from ...state.cluster import ClusterState
from ...state.migration.switches import Fence


def newer_epochs(
    state: ClusterState, fence: Fence, epochs: Iterable[tuple[int, int]]
) -> Iterator[EpochBegan]:
    """Yield the source's leader epochs that are newer than those here; each begins at the end here.

    epochs: of the source's leaders, by partition number; -1: unknown.
    """
    known = dict(epochs)
    for topic_id in fence.limits:
        for number in state.topics.get(topic_id).partition_numbers:
            partition = state.partitions[number]
            if known.get(number, -1) > partition.leader_epoch:
                yield EpochBegan(number, known[number], partition.next_offset)
