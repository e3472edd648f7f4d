"""Consumers that run over a restore, and check leader epochs as KIP-320 describes.

A reader keeps the records that it read.  When a new epoch fences the reader, it asks where the
epoch of its last record ended and discards the records beyond.  Whether or not a gateway fenced the
reader, its records must equal those of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch, metadata
from tidegate_protocol.messages import offset_for_leader_epoch as wire
from tidegate_protocol.records import decode_records, walk

from .client import Client
from .workload import Key

FETCH_VERSION: Final = 12
_METADATA_VERSION: Final = 12
_EPOCHS_VERSION: Final = 4
_LOOKS: Final = 30
_READS: Final = 500
_NO_EPOCH: Final = -1


class Unreadable(Exception):
    """The gateway returns nothing of the partition now, perhaps because objects were lost."""


@dataclass(slots=True)
class EpochReader:
    """Reads one key.

    held: the records read, by offset.  epoch: from metadata.  last_epoch: of the last batch read.
    truncations: how often a gateway answered that the reader's records do not exist.
    """

    client: Client
    key: Key
    position: int = 0
    epoch: int = _NO_EPOCH
    last_epoch: int = _NO_EPOCH
    held: dict[int, bytes] = field(default_factory=dict[int, bytes])
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    truncations: int = 0

    async def read_to_the_end(self) -> None:
        """Read to the end of the partition.

        Raises:
          Unreadable: the reader did not reach the end.
          Disconnected: no gateway answers.
        """
        if self.epoch == _NO_EPOCH:
            await self._learn_epoch()
        for _ in range(_READS):
            if await self._read_once():
                return
        raise Unreadable

    async def _read_once(self) -> bool:
        """Fetch once; return whether the end is reached."""
        answer = await self._fetch()
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH):
            await self._learn_epoch()
            await self._validate()
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._forget_from(0)
            self.position = answer.log_start_offset
        elif code == ErrorCode.NONE:
            self._take(answer.records or b"")
            return self.position >= answer.high_watermark
        else:
            await self.client.pause(2.0)
        return False

    async def _fetch(self) -> fetch.PartitionData:
        asked = fetch.FetchPartition(
            self.key.partition,
            current_leader_epoch=self.epoch,
            fetch_offset=self.position,
            partition_max_bytes=1 << 20,
        )
        request = fetch.FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[fetch.FetchTopic(self.key.topic, partitions=[asked])],
        )
        answer = await self.client.call("Fetch", fetch, FETCH_VERSION, request)
        found: fetch.PartitionData = answer.responses[0].partitions[0]
        return found

    def _take(self, records: Any) -> None:
        view = memoryview(bytes(records))
        for start, header in walk(view):
            batch = view[start : start + header.size_bytes]
            for each in decode_records(batch, max_decompressed_bytes=1 << 20):
                if each.offset >= self.position:
                    self.held[each.offset] = bytes(each.value or b"")
                    self.epochs[each.offset] = header.leader_epoch
            self.position = max(self.position, header.base_offset + header.last_offset_delta + 1)
            self.last_epoch = header.leader_epoch

    async def _learn_epoch(self) -> None:
        topics = [metadata.MetadataRequestTopic(name=self.key.topic)]
        request = metadata.MetadataRequest(topics, allow_auto_topic_creation=False)
        for _ in range(_LOOKS):
            answer = await self.client.call("Metadata", metadata, _METADATA_VERSION, request)
            for part in answer.topics[0].partitions:
                if part.partition_index == self.key.partition:
                    self.epoch = part.leader_epoch
                    return
            await self.client.pause(1.0)
        raise Unreadable

    async def _validate(self) -> None:
        """Ask where the epoch of the last record ended, and continue there."""
        if self.last_epoch == _NO_EPOCH:
            return
        end = max(await self.end_of(self.last_epoch), 0)
        if end < self.position:
            self.truncations += 1
            self._forget_from(end)
            self.position = end

    async def end_of(self, epoch: int) -> int:
        """Ask where an epoch ends; -1 if the gateway does not know the epoch.

        Raises:
          Unreadable, Disconnected: there is no answer.
        """
        asked = wire.OffsetForLeaderPartition(self.key.partition, self.epoch, epoch)
        topic = wire.OffsetForLeaderTopic(self.key.topic, [asked])
        request = wire.OffsetForLeaderEpochRequest(-1, [topic])
        for _ in range(_LOOKS):
            answer = await self.client.call("OffsetForLeaderEpoch", wire, _EPOCHS_VERSION, request)
            found = answer.topics[0].partitions[0]
            if found.error_code == ErrorCode.NONE:
                end: int = found.end_offset
                return end
            await self.client.pause(1.0)
        raise Unreadable

    def _forget_from(self, offset: int) -> None:
        self.held = {at: value for at, value in self.held.items() if at < offset}
        self.epochs = {at: epoch for at, epoch in self.epochs.items() if at < offset}
