"""Frames of transactional producers, made once and patched for each request.

Encoding every request would cost as much as a gateway spends on it.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import Final

from crc32c import crc32c

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import CRC_POSITION, CRC_START, TRANSACTIONAL
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import add_partitions_to_txn, end_txn, produce
from tidegate_protocol.records import Record, build_batch

from .spec import KIB, Transact

TIMEOUT_MS: Final = 60_000
TIME_MS: Final = 1_700_000_000_000
# By version of transactions; 0 is a producer without any.
PRODUCE: Final = (12, 11, 12)
END: Final = (5, 4, 5)
ADD: Final = 3
_PRODUCER_POSITION: Final = 43  # of a batch: its producer id, epoch and base sequence
_PRODUCER = Struct(">qhi")
_WHO = Struct(">qh")
_CRC = Struct(">I")
_INT32 = Struct(">i")
_ERROR = Struct(">h")
_END_TAIL: Final = 2  # of EndTxn, after the epoch: committed, no tags
_FLAT_HEAD: Final = 5  # of answers: correlation id, no tags
_THROTTLE: Final = 4


class ProduceFrame:
    """A Produce request of one batch."""

    def __init__(self, spec: Transact, name: str) -> None:
        count = max(1, spec.batch_bytes // KIB)
        size = min(spec.batch_bytes, KIB)
        records = [Record(at, TIME_MS, None, os.urandom(size), ()) for at in range(count)]
        attributes = TRANSACTIONAL if spec.version else 0
        batch = build_batch(
            records, attributes=attributes, producer_id=0, producer_epoch=0, base_sequence=0
        )
        version = PRODUCE[spec.version]
        data = produce.PartitionProduceData(0, batch)
        topics = [produce.TopicProduceData(name=spec.topic, partition_data=[data])]
        request = produce.ProduceRequest(name if spec.version else None, -1, TIMEOUT_MS, topics)
        body = produce.encode_request(request, version)
        self.data: Final = bytearray(_framed(ApiKey.PRODUCE, version, body))
        self.record_count: Final = count
        self.payload_bytes: Final = count * size
        self._batch: Final = self.data.rindex(batch)
        length_bytes = ((len(batch) + 1).bit_length() + 6) // 7
        self._partition: Final = self._batch - length_bytes - _INT32.size
        self._crc_part: Final = memoryview(self.data)[
            self._batch + CRC_START : self._batch + len(batch)
        ]
        # The answer has one topic and one partition.
        self._error: Final = _FLAT_HEAD + 1 + 1 + len(spec.topic) + 1 + _INT32.size

    def patch(self, producer_id: int, epoch: int, partition: int, sequence: int) -> None:
        """Set the batch's place, and its checksum."""
        at = self._batch
        _INT32.pack_into(self.data, self._partition, partition)
        _PRODUCER.pack_into(self.data, at + _PRODUCER_POSITION, producer_id, epoch, sequence)
        _CRC.pack_into(self.data, at + CRC_POSITION, crc32c(self._crc_part))

    def error_of(self, answer: memoryview) -> int:
        """Return the error of the batch."""
        return int(_ERROR.unpack_from(answer, self._error)[0])


class EndFrame:
    """An EndTxn request that commits."""

    def __init__(self, spec: Transact, name: str) -> None:
        version = END[spec.version]
        body = end_txn.encode_request(end_txn.EndTxnRequest(name, 0, 0, True), version)
        self.data: Final = bytearray(_framed(ApiKey.END_TXN, version, body))
        self._who: Final = len(self.data) - _END_TAIL - _WHO.size

    def patch(self, producer_id: int, epoch: int) -> None:
        """Set the producer."""
        _WHO.pack_into(self.data, self._who, producer_id, epoch)

    @staticmethod
    def error_of(answer: memoryview) -> int:
        """Return its error."""
        return int(_ERROR.unpack_from(answer, _FLAT_HEAD + _THROTTLE)[0])

    @staticmethod
    def next_of(answer: memoryview) -> tuple[int, int]:
        """Return the producer id and epoch of the next transaction, of version 2."""
        producer_id, epoch = _WHO.unpack_from(answer, _FLAT_HEAD + _THROTTLE + _ERROR.size)
        return int(producer_id), int(epoch)


def add_frame(
    spec: Transact, name: str, producer_id: int, epoch: int, partitions: list[int]
) -> bytes:
    """Return an AddPartitionsToTxn request; in version 1 its producer stays the same."""
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(spec.topic, partitions)
    request = add_partitions_to_txn.AddPartitionsToTxnRequest([], name, producer_id, epoch, [topic])
    body = add_partitions_to_txn.encode_request(request, ADD)
    return bytes(_framed(ApiKey.ADD_PARTITIONS_TO_TXN, ADD, body))


def add_error_of(answer: memoryview) -> int:
    """Return the first error of an answer to add_frame()."""
    decoded = add_partitions_to_txn.decode_response(answer[_FLAT_HEAD:], ADD)
    results = decoded.results_by_topic_v3_and_below[0].results_by_partition
    return next((each.partition_error_code for each in results if each.partition_error_code), 0)


def _framed(api_key: int, version: int, body: bytes | bytearray) -> bytes:
    return bytes(frame(encode_request_header(api_key, version, 1, client_id="bench") + body))
