"""Readers of mirrored topics: every batch that a gateway gives is one that the source held."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.records import walk

from ..classic.model_topics import ModelPartition
from ..clients.client import Client, Disconnected
from ..clients.workload import Workload
from .source import Source

_MAX_BYTES = 1 << 20
MAX_INT64 = (1 << 63) - 1
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
        """Fetch once, and check the batches; return the offset after them, and their offsets."""
        wanted = fe.FetchPartition(
            partition.key.partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES
        )
        request = fe.FetchRequest(
            max_bytes=_MAX_BYTES,
            session_epoch=-1,
            topics=[fe.FetchTopic(partition.key.topic, partitions=[wanted])],
        )
        response = await self.client.call("Fetch", fe, 12, request)
        [data] = response.responses[0].partitions
        if data.error_code in _RETRIED:
            return offset, set()
        if data.error_code:
            self._complain(f"{partition.key} at {offset}: {ErrorCode(data.error_code).name}")
            return offset, set()
        records = bytes(cast("memoryview", data.records or b""))
        return self._check(topic_id, partition, offset, records)

    def _check(
        self, topic_id: bytes, partition: ModelPartition, offset: int, records: bytes
    ) -> tuple[int, set[int]]:
        index = partition.key.partition
        found = set[int]()
        for at, header in walk(memoryview(records)):
            raw = records[at : at + header.size_bytes]
            base = header.base_offset
            # An empty batch says that there is none.
            is_own = header.record_count == 0 or base >= self._end(topic_id, index)
            if not is_own and not self._source.ever_held(topic_id, index, base, raw):
                self._complain(f"{partition.key}: {base} is not what the source held")
            found.add(base)
            offset = header.last_offset + 1
        return offset, found

    def _end(self, topic_id: bytes, index: int) -> int:
        """Return where the source's batches end here, as far as that is known."""
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
