"""The page of a gateway with 100,000 partitions is made in small steps, and is small."""

from __future__ import annotations

import pytest

from tests.worlds.app_world import started_gateway
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition
from tidegate_gateway.admin.metrics import gateway_metrics
from tidegate_gateway.counting.topic_series import MAX_TOPIC_SERIES
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.requests.topics.metrics import MAX_PARTITION_SERIES, STEP_PARTITIONS
from tidegate_runtime.prometheus import SAMPLES_A_PIECE, pieces

TOPICS = 5_000
PARTITIONS = 20
TOPICS_AT_ONCE = 500


def name_of(number: int) -> str:
    return f"team-{number % 40:02}.orders-of-the-month.{number:04}"


async def fill(gateway: Gateway) -> None:
    """Create all topics, and count a record for each."""
    for first in range(0, TOPICS, TOPICS_AT_ONCE):
        topics = [
            NewTopic(number.to_bytes(16, "big"), name_of(number), PARTITIONS)
            for number in range(first, first + TOPICS_AT_ONCE)
        ]
        await gateway.coordinator.propose(CreateTopics(topics))
    for number in range(TOPICS):
        gateway.counters.topics.produced(name_of(number), 10**9 + number, 10**6)
        gateway.counters.topics.fetched(name_of(number), 10**9)


class Counted:
    """Partitions that count the look-ups of single partitions."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self.looks = 0

    def get(self, number: int) -> Partition | None:
        self.looks += 1
        return self._partitions.get(number)

    def __len__(self) -> int:
        return len(self._partitions)


async def test_the_page_of_100000_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with started_gateway() as gateway:
        await fill(gateway)
        state = gateway.coordinator.state
        assert len(state.partitions) == TOPICS * PARTITIONS
        for partition in state.partitions.values():
            partition.next_offset = 7
        counted = Counted(state.partitions)
        monkeypatch.setattr(state, "partitions", counted)
        looks, text = 0, ""
        for piece in pieces(gateway_metrics(gateway)):
            # The event loop makes one piece at a time.  A family's head has two lines.
            assert len(piece.splitlines()) < 2 * SAMPLES_A_PIECE
            assert counted.looks - looks <= max(MAX_PARTITION_SERIES, STEP_PARTITIONS)
            looks, text = counted.looks, text + piece
        assert looks == TOPICS * PARTITIONS
    assert len(text) < 2_000_000
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    rows = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    assert len(rows) == MAX_TOPIC_SERIES + 1
    # Here the last topics are the most active ones.  The sum includes all topics.
    assert rows[0] == f'{name}{{topic="{name_of(TOPICS - 1)}"}} {10**9 + TOPICS - 1}'
    total = sum(int(row.rpartition(" ")[2]) for row in rows)
    assert total == TOPICS * 10**9 + sum(range(TOPICS))
    assert f"\n{name} {total}\n" in text
    assert f"\ntidegate_topics_without_series {TOPICS - MAX_TOPIC_SERIES}.0\n" in text
    assert f"tidegate_partitions_without_series {TOPICS * PARTITIONS - 1_000}.0\n" in text
    hidden = TOPICS * PARTITIONS - MAX_PARTITION_SERIES
    assert f'\nkafka_log_log_logendoffset{{topic="_other"}} {hidden * 7}\n' in text
    assert f'\nkafka_log_log_size{{partition="0",topic="{name_of(TOPICS - 1)}"}} 0\n' in text
