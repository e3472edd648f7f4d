"""A transactional producer of a model cluster, each step a request, and what readers then see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from tests.worlds.classic_client import ClassicWorld, batch_of
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import txn_offset_commit as tc

NAME = "tx"
GROUP = "g"
TIMEOUT_SECONDS = 60.0


class Transactor:
    """Speaks to the coordinator of its id, and to the leaders.

    knows_v2: sends the requests of transaction.version 2.
    """

    def __init__(self, world: ClassicWorld, name: str = NAME, *, knows_v2: bool = True) -> None:
        self.world = world
        self.name = name
        self.knows_v2 = knows_v2
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def call(self, api: str, version: int, request: Any, node_id: int | None = None) -> Any:
        """Ask the coordinator of the id, or a broker."""
        if node_id is None:
            node_id = self.world.cluster.coordinator_of(self.name)
        client = await self.world.client(node_id)
        try:
            return await client.call(api, version, request)
        finally:
            await client.stream.aclose()

    async def init(self, *, version: int = 5, expected: bool = False, **changes: Any) -> int:
        """Take a producer id and epoch; return the error."""
        request = ip.InitProducerIdRequest(self.name, int(TIMEOUT_SECONDS * 1000))
        if expected:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        for field, value in changes.items():
            setattr(request, field, value)
        answer: ip.InitProducerIdResponse = await self.call("InitProducerId", version, request)
        if not answer.error_code:
            self._become(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()

    async def add(self, *indexes: int, topic: str = "t", version: int = 3) -> list[int]:
        """Add partitions as a client of version 1 does; return the errors."""
        wanted = ap.AddPartitionsToTxnTopic(topic, list(indexes))
        request = ap.AddPartitionsToTxnRequest(
            [], self.name, self.producer_id, self.epoch, [wanted]
        )
        answer = await self.call("AddPartitionsToTxn", version, request)
        [topics] = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for each in topics.results_by_partition]

    async def produce(
        self, value: bytes = b"v", *, index: int = 0, version: int | None = None, **head: int
    ) -> int:
        """Write one record; return the error."""
        answer = await self.produced(value, index=index, version=version, **head)
        if not answer.error_code:
            self.sequences["t", index] = self.sequences.get(("t", index), 0) + 1
        return answer.error_code

    async def produced(
        self, value: bytes, *, index: int = 0, version: int | None = None, **head: int
    ) -> pr.PartitionProduceResponse:
        """Write one record; return the partition's answer."""
        sequence = self.sequences.get(("t", index), 0)
        raw = self.batch(value, **({"base_sequence": sequence} | head))
        data = pr.PartitionProduceData(index, raw)
        request = pr.ProduceRequest(
            self.name, -1, 9000, [pr.TopicProduceData("t", partition_data=[data])]
        )
        leader = self.world.cluster.partition("t", index).leader
        if version is None:
            version = 12 if self.knows_v2 else 11
        response = await self.call("Produce", version, request, leader)
        answer: pr.PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def batch(self, value: bytes, **head: int) -> bytes:
        """Return a batch of one record."""
        fields = {
            "attributes": TRANSACTIONAL,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": 0,
        }
        return batch_of(value, **(fields | head))

    async def write(self, *indexes: int) -> None:
        """Write a record to each partition."""
        if not self.knows_v2:
            assert set(await self.add(*indexes)) == {0}
        for index in indexes:
            assert await self.produce(index=index) == 0

    async def end(self, *, commits: bool = True, version: int | None = None) -> int:
        """End the transaction; return the error."""
        return (await self.ended(commits=commits, version=version)).error_code

    async def ended(self, *, commits: bool = True, version: int | None = None) -> et.EndTxnResponse:
        """End the transaction, and take over id and epoch; return the answer."""
        if version is None:
            version = 5 if self.knows_v2 else 4
        request = et.EndTxnRequest(self.name, self.producer_id, self.epoch, commits)
        answer: et.EndTxnResponse = await self.call("EndTxn", version, request)
        if version >= 5 and not answer.error_code:
            self._become(answer.producer_id, answer.producer_epoch)
        return answer

    # -- offsets of a group -----------------------------------------------------------------------

    async def add_offsets(self, group_id: str = GROUP, *, version: int = 3) -> int:
        """Add a group; return the error."""
        request = ao.AddOffsetsToTxnRequest(self.name, self.producer_id, self.epoch, group_id)
        code: int = (await self.call("AddOffsetsToTxn", version, request)).error_code
        return code

    async def commit(
        self,
        offset: int,
        *,
        group_id: str = GROUP,
        index: int = 0,
        version: int | None = None,
        **changes: Any,
    ) -> int:
        """Commit the offset of a partition in the transaction; return the error."""
        wanted = tc.TxnOffsetCommitRequestPartition(index, offset)
        request = tc.TxnOffsetCommitRequest(
            self.name,
            group_id,
            self.producer_id,
            self.epoch,
            topics=[tc.TxnOffsetCommitRequestTopic("t", [wanted])],
        )
        for field, value in changes.items():
            setattr(request, field, value)
        if version is None:
            version = 5 if self.knows_v2 else 4
        node_id = self.world.cluster.coordinator_of(group_id)
        answer = await self.call("TxnOffsetCommit", version, request, node_id)
        code: int = answer.topics[0].partitions[0].error_code
        return code


async def settled(world: ClassicWorld) -> None:
    """Wait until the markers of an end are written."""
    await trio.sleep(world.cluster.transaction_settings.marker_seconds * 2)


async def described(world: ClassicWorld, name: str = NAME) -> dt.TransactionState:
    """Return a transactional id as DescribeTransactions shows it."""
    client = await world.client(world.cluster.coordinator_of(name))
    request = dt.DescribeTransactionsRequest([name])
    [state] = (await client.call("DescribeTransactions", 0, request)).transaction_states
    assert isinstance(state, dt.TransactionState)
    return state


async def shown_state(world: ClassicWorld) -> str:
    """Return the state that a tool sees."""
    return (await described(world)).transaction_state


async def read(world: ClassicWorld, *, index: int = 0) -> fe.PartitionData:
    """Fetch committed records of t from its beginning."""
    client = await world.client(world.cluster.partition("t", index).leader)
    return await client.fetch("t", 0, partition=index, isolation_level=1)


def markers(world: ClassicWorld, index: int = 0) -> list[tuple[int, int]]:
    """Return offset and epoch of each control batch of a partition."""
    batches = world.cluster.partition("t", index).log.batches
    heads = [each.header for each in batches if each.header.is_control]
    return [(each.base_offset, each.producer_epoch) for each in heads]


async def committed(
    world: ClassicWorld,
    group_id: str = GROUP,
    *,
    stable: bool = False,
    indexes: Sequence[int] = (0,),
) -> list[tuple[int, int]]:
    """Return error and offset that a group has for partitions of t."""
    client = await world.client(world.cluster.coordinator_of(group_id))
    topics = [of.OffsetFetchRequestTopics("t", partition_indexes=list(indexes))]
    wanted = of.OffsetFetchRequestGroup(group_id, topics=topics)
    request = of.OffsetFetchRequest(groups=[wanted], require_stable=stable)
    [group] = (await client.call("OffsetFetch", 8, request)).groups
    assert group.error_code == 0
    return [(each.error_code, each.committed_offset) for each in group.topics[0].partitions]
