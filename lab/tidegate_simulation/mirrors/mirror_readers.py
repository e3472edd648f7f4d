"""Readers of mirrored topics: every batch that a gateway returns must be one of the source.

They fetch with the last leader epoch of Metadata, and ask again when a gateway refuses the epoch,
as consumers do (KIP-320).  A gateway that keeps refusing its own epoch serves no consumer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.records import walk

from ..classic.model_topics import ModelPartition, PartitionKey
from ..clients.client import Client, Disconnected
from ..clients.workload import Workload
from .source import Source

_MAX_BYTES = 1 << 20
MAX_INT64 = (1 << 63) - 1
_NO_EPOCH = -1
_METADATA_VERSION = 12
_TRIES = 6
"""An epoch may begin between an answer to Metadata and the next fetch, but not each time."""
_EPOCH_REFUSED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)


class MirrorReader:
    """Reads anywhere in mirrored partitions, until no operation is left."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._source = source
        self._epochs: dict[PartitionKey, int] = {}

    async def run(self) -> None:
        """Read here and there."""
        rng = self.client.rng
        while self._workload.take():
            topic_id, partition = rng.choice(list(self._source.partitions()))
            offset = rng.randint(0, partition.log.end_offset)
            with suppress(Disconnected):
                await self._read(topic_id, partition, offset)
            await self.client.pause(2.0)
        self.client.close()

    async def _read(
        self, topic_id: bytes, partition: ModelPartition, offset: int
    ) -> tuple[int, set[int]]:
        """Fetch once, and check the batches; return the next offset, and the batches' offsets."""
        data = await self._fetched(partition.key, offset)
        if data.error_code in _RETRIED:
            return offset, set()
        if data.error_code:
            self._complain(f"{partition.key} at {offset}: {ErrorCode(data.error_code).name}")
            return offset, set()
        records = bytes(cast("memoryview", data.records or b""))
        return self._check(topic_id, partition, offset, records)

    async def _fetched(self, key: PartitionKey, offset: int) -> fe.PartitionData:
        """Fetch, with the leader epoch that the gateway tells."""
        if key not in self._epochs:
            await self._learn_epoch(key)
        data = await self._fetched_once(key, offset)
        for _ in range(_TRIES):
            if data.error_code not in _EPOCH_REFUSED:
                break
            await self.client.pause(0.2)
            await self._learn_epoch(key)
            data = await self._fetched_once(key, offset)
        return data

    async def _fetched_once(self, key: PartitionKey, offset: int) -> fe.PartitionData:
        wanted = fe.FetchPartition(
            key.partition,
            current_leader_epoch=self._epochs.get(key, _NO_EPOCH),
            fetch_offset=offset,
            partition_max_bytes=_MAX_BYTES,
        )
        request = fe.FetchRequest(
            max_bytes=_MAX_BYTES,
            session_epoch=-1,
            topics=[fe.FetchTopic(key.topic, partitions=[wanted])],
        )
        response = await self.client.call("Fetch", fe, 12, request)
        data: fe.PartitionData
        [data] = response.responses[0].partitions
        return data

    async def _learn_epoch(self, key: PartitionKey) -> None:
        """Ask for the partition's leader epoch; there is none before the topic is mirrored."""
        topics = [md.MetadataRequestTopic(name=key.topic)]
        request = md.MetadataRequest(topics, allow_auto_topic_creation=False)
        answer = await self.client.call("Metadata", md, _METADATA_VERSION, request)
        self._epochs.pop(key, None)
        for each in answer.topics[0].partitions:
            if each.partition_index == key.partition:
                self._epochs[key] = each.leader_epoch

    def _check(
        self, topic_id: bytes, partition: ModelPartition, offset: int, records: bytes
    ) -> tuple[int, set[int]]:
        index = partition.key.partition
        found = set[int]()
        for at, header in walk(memoryview(records)):
            raw = records[at : at + header.size_bytes]
            base = header.base_offset
            # An empty batch says that no records are left.
            is_own = header.record_count == 0 or base >= self._end(topic_id, index)
            if not is_own and not self._source.ever_held(topic_id, index, base, raw):
                self._complain(f"{partition.key}: {base} is not what the source held")
            found.add(base)
            offset = header.last_offset + 1
        return offset, found

    def _end(self, topic_id: bytes, index: int) -> int:
        """Return the offset at which a switch ended the source's batches here, if there was one."""
        switched = self._workload.world.watch.state.switches.switched.get(topic_id)
        if switched is None:
            return MAX_INT64
        return switched.ends[index] if index < len(switched.ends) else 0

    def _complain(self, text: str) -> None:
        self._workload.world.complain("mirror read", text)

    async def read_all(self) -> None:
        """Read all partitions whole: each batch that the source holds must be there."""
        for topic_id, partition in self._source.partitions():
            offset = partition.log.log_start
            found = set[int]()
            while offset < partition.log.high_watermark:
                following = offset
                with suppress(Disconnected):
                    following, more = await self._read(topic_id, partition, offset)
                    found |= more
                if following == offset:
                    await self.client.pause(1.0)
                offset = following
            held = {each.header.base_offset for each in partition.log.batches}
            if held - found:
                self._complain(f"{partition.key}: the batches {sorted(held - found)} are missing")
            self._workload.world.strikes.count("source.read", len(held))
        self.client.close()
