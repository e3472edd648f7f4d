"""Whether a partition that a request names exists."""

from __future__ import annotations

from tidegate_coordination.state.topics import TopicTable


def partition_exists(topics: TopicTable, name: str, index: int) -> bool:
    """Return whether the local replica knows the partition.

    Callers catch up with the log before they answer no.
    """
    topic = topics.by_name.get(name)
    return topic is not None and 0 <= index < len(topic.partition_numbers)
