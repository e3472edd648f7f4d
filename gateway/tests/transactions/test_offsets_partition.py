"""The partition of __consumer_offsets that stands for a group in DescribeTransactions."""

from __future__ import annotations

import pytest

from tidegate_coordination.state.offsets_topic import offsets_partition


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        ("g", 8, 7),
        ("d1795570318-0-g1", 8, 6),  # the hash code is below zero; from Apache Kafka 4.3.1
        ("d1795570318-2-g0", 8, 1),
        ("polygenelubricants", 50, 0),  # the lowest hash code, which has no absolute value
    ],
)
def test_it_is_the_partition_that_kafka_keeps_the_group_in(
    group_id: str, count: int, partition: int
) -> None:
    assert offsets_partition(group_id, count) == partition
