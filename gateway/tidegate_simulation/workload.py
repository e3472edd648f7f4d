"""What all actors of a run share: the keys, the number of operations left, the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_topics, metadata
from tidegate_protocol.records import Record, build_batch

from .client import Client, Disconnected, ProtocolBroken
from .world import World


class Key(NamedTuple):
    """One partition, as histories number it."""

    number: int
    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class Workload:
    """operations_left: each actor takes one for each thing it does."""

    world: World
    operations_left: int
    keys: list[Key] = field(default_factory=list[Key])
    _values: count[int] = field(default_factory=lambda: count(1))

    def take(self) -> bool:
        """Take one operation; False when none is left."""
        if self.operations_left <= 0:
            return False
        self.operations_left -= 1
        return True

    def values(self, how_many: int) -> list[int]:
        """Return values that nobody else sends."""
        return [next(self._values) for _ in range(how_many)]

    def key_of(self, topic: str, topic_id: bytes, partition: int) -> Key:
        """Return the key of a partition that an answer names, by name or by id."""
        for key in self.keys:
            if key.partition == partition and (
                key.topic == topic if topic else key.topic_id == topic_id
            ):
                return key
        raise ProtocolBroken(f"an answer names {topic or topic_id.hex()}-{partition}")


def batch_bytes(
    values: Sequence[int], timestamp: int, *, producer: tuple[int, int] = (-1, -1), sequence: int
) -> bytes:
    """Return a batch with one record a value."""
    records = [
        Record(place, timestamp, None, str(value).encode()) for place, value in enumerate(values)
    ]
    return build_batch(
        records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )


async def create_topics_and_keys(workload: Workload, topics: dict[str, int]) -> None:
    """Create topics with so many partitions each, and number their partitions."""
    admin = Client(workload.world, "setup")
    request = create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic(name, parts, 1) for name, parts in topics.items()], 30_000
    )
    while True:
        try:
            response = await admin.call("CreateTopics", create_topics, 7, request)
            break
        except Disconnected:
            await admin.pause(1.0)
    created = {each.name: each for each in response.topics}
    for name, parts in topics.items():
        if created[name].error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ProtocolBroken(f"CreateTopics: {response}")
        topic_id = created[name].topic_id
        for index in range(parts):
            workload.keys.append(Key(len(workload.keys), name, topic_id, index))
    await _compare_metadata(admin, workload)
    admin.close()


async def _compare_metadata(admin: Client, workload: Workload) -> None:
    names = sorted({key.topic for key in workload.keys})
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    response = await admin.call("Metadata", metadata, 12, request)
    found = {
        (topic.name, topic.topic_id, part.partition_index)
        for topic in response.topics
        for part in topic.partitions
    }
    if found != {(key.topic, key.topic_id, key.partition) for key in workload.keys}:
        raise ProtocolBroken(f"Metadata does not name what was created: {response}")
