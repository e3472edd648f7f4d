"""The shared parts of a run's actors: the keys, the number of operations left, the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from tidegate_protocol.batches import read_header, with_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_topics, metadata
from tidegate_protocol.records import Record, build_batch

from ..checks.keyed import Keyed
from ..plans.settings_plan import RETENTION
from ..world.world import World
from .client import Client, Disconnected, ProtocolBroken


class Key(NamedTuple):
    """One partition, as histories number it."""

    number: int
    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class Lane:
    """The partitions that consume-process-produce clients read and write; see transactions/etl.py.

    inputs, outputs: keys by partition; both are empty until their feeder has created the topics.
    """

    inputs: list[Key] = field(default_factory=list[Key])
    outputs: list[Key] = field(default_factory=list[Key])

    def output_of(self, key: Key) -> Key:
        """Return the output partition of an input partition."""
        return self.outputs[key.partition]


@dataclass(slots=True)
class Workload:
    """operations_left: each operation of an actor takes one.

    first_offset: of every partition.
    keys: of topics that stay; all clients use them, and final readers read them.
    append_time: numbers of keys whose records may have LogAppendTime.  keyed: by the number of a
    key, the rules for the record keys of a compacted topic.
    """

    world: World
    operations_left: int
    first_offset: int = 0
    keys: list[Key] = field(default_factory=list[Key])
    append_time: set[int] = field(default_factory=set[int])
    keyed: dict[int, Keyed] = field(default_factory=dict[int, Keyed])
    lane: Lane = field(default_factory=Lane)
    _values: count[int] = field(default_factory=lambda: count(1))
    _numbers: count[int] = field(default_factory=count)
    _known: dict[tuple[bytes, int], int] = field(default_factory=dict[tuple[bytes, int], int])
    _mirrored: dict[tuple[bytes, int], int] = field(default_factory=dict[tuple[bytes, int], int])

    def take(self) -> bool:
        """Take one operation; False when none is left."""
        if self.operations_left <= 0:
            return False
        self.operations_left -= 1
        return True

    def values(self, how_many: int) -> list[int]:
        """Return values that no other call returns."""
        return [next(self._values) for _ in range(how_many)]

    def new_keys(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> list[Key]:
        """Number the partitions of a topic."""
        keys = [Key(next(self._numbers), topic, topic_id, index) for index in partitions]
        self._known.update({(topic_id, key.partition): key.number for key in keys})
        if self.first_offset:
            for key in keys:
                value = {"key": key.number, "offset": self.first_offset}
                self.world.history.note("setup", "ok", "begins", value)
        return keys

    def mirrored_keys(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> list[Key]:
        """Number the partitions of a mirrored topic, for committed offsets.

        No history has its records.
        """
        keys = [Key(next(self._numbers), topic, topic_id, index) for index in partitions]
        self._mirrored.update({(topic_id, key.partition): key.number for key in keys})
        return keys

    def number_of(self, topic_id: bytes, partition: int) -> int | None:
        """Return the number of a partition; None if no client knows it yet."""
        place = (topic_id, partition)
        return self._known.get(place, self._mirrored.get(place))

    def is_known(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a client knows a partition."""
        return (topic_id, partition) in self._known


_FALSE_ONE_IN: Final = 8
_FALSE_TIMES_MS: Final = {1: 0, 3: 1, 5: -1, 7: 3_600_000_000_000}


def batch_bytes(
    values: Sequence[int],
    timestamp: int,
    *,
    producer: tuple[int, int] = (-1, -1),
    sequence: int,
    keyed: Keyed | None = None,
    attributes: int = 0,
) -> bytes:
    """Return a batch with one record a value.

    In a part of all batches the header has a false largest time stamp, as some clients write it.
    Gateways must correct it.
    """
    records = [
        keyed.record(place, timestamp, value)
        if keyed is not None
        else Record(place, timestamp, None, str(value).encode())
        for place, value in enumerate(values)
    ]
    batch = build_batch(
        records,
        attributes=attributes,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    # The value decides, because a draw would change all seeds with which tests find planted bugs.
    false_ms = _FALSE_TIMES_MS.get(values[0] % _FALSE_ONE_IN) if values else None
    if false_ms is None:
        return batch
    header = read_header(batch)._replace(max_timestamp=false_ms)
    return bytes(with_header(memoryview(batch), header)[0])


async def create_topics_and_keys(workload: Workload, topics: dict[str, int]) -> None:
    """Create topics with so many partitions each, and number their partitions."""
    admin = Client(workload.world, "setup")
    for name, parts in topics.items():
        topic_id = await create_topic(admin, name, parts, own_retention(workload.world))
        workload.keys += workload.new_keys(name, topic_id, range(parts))
    await _compare_metadata(admin, workload)
    admin.close()


def own_retention(world: World) -> dict[str, str]:
    """Return the configs with which a topic keeps all of its records."""
    plan = world.plan.static
    told = world.watch.state.static_settings.by_node_id
    keeps_all = any(plan.is_careful(each, RETENTION) for each in plan.static if each in told)
    return {"retention.ms": "-1"} if plan.static and not keeps_all else {}


async def create_topic(
    client: Client,
    name: str,
    partitions: int,
    configs: Mapping[str, str] | None = None,
    known: Iterable[bytes] = (),
) -> bytes:
    """Create a topic, repeating until it exists, and return its id.

    known: ids of former topics of the name.
    """
    rows = [
        create_topics.CreatableTopicConfig(each, value) for each, value in (configs or {}).items()
    ]
    topic = create_topics.CreatableTopic(name, partitions, 1, configs=rows)
    request = create_topics.CreateTopicsRequest([topic], 30_000)
    while True:
        try:
            response = await client.call("CreateTopics", create_topics, 7, request)
        except Disconnected:
            # The network may deliver the request at any time, even after the topic's deletion.
            client.world.unanswered_creates.add(name)
            await client.pause(1.0)
            continue
        answer = response.topics[0]
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                return bytes(answer.topic_id)
            case ErrorCode.REQUEST_TIMED_OUT:
                continue  # other clients changed topics of the name
            case ErrorCode.TOPIC_ALREADY_EXISTS if name in client.world.unanswered_creates:
                return await _find_id(client, name, frozenset(known))
            case code:
                raise ProtocolBroken(f"CreateTopics of {name}: {code.name}")


async def _find_id(client: Client, name: str, known: frozenset[bytes]) -> bytes:
    """Ask until a gateway answers with a new id."""
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    while True:
        try:
            response = await client.call("Metadata", metadata, 12, request)
        except Disconnected:
            await client.pause(1.0)
            continue
        topic_id = bytes(response.topics[0].topic_id)
        if not response.topics[0].error_code and topic_id not in known:
            return topic_id
        client.close()
        await client.pause(1.0)


async def _compare_metadata(admin: Client, workload: Workload) -> None:
    names = sorted({key.topic for key in workload.keys})
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    while True:
        try:
            response = await admin.call("Metadata", metadata, 12, request)
            break
        except Disconnected:
            await admin.pause(1.0)
    found = {
        (topic.name, topic.topic_id, part.partition_index)
        for topic in response.topics
        for part in topic.partitions
    }
    if found != {(key.topic, key.topic_id, key.partition) for key in workload.keys}:
        raise ProtocolBroken(f"Metadata does not name the created topic: {response}")
