"""Control batches: the bytes that Kafka writes."""

from __future__ import annotations

import pytest

from tidegate_protocol.batches import HEADER_BYTES
from tidegate_protocol.control_batches import CONTROL_BATCH_BYTES, commits, control_batch

# The bytes that MemoryRecords.withEndTransactionMarker of kafka-clients 4.3.1 writes.
_HEAD = "00000000000030390000004200000007"
_REST = (
    "0030000000000000018bcfe5687b0000018bcfe5687b000000e5f4c8f374002affffffff00000001200000000800"
)
_ABORT = f"{_HEAD}024a58bb73{_REST}0000000c00000000000000"
_COMMIT = f"{_HEAD}02be666d3b{_REST}0000010c00000000000000"


@pytest.mark.parametrize(("committed", "expected"), [(False, _ABORT), (True, _COMMIT)])
def test_a_marker_has_the_bytes_that_kafka_writes(committed: bool, expected: str) -> None:
    batch = control_batch(
        base_offset=12345,
        leader_epoch=7,
        timestamp_ms=1_700_000_000_123,
        producer_id=987_654_321_012,
        producer_epoch=42,
        committed=committed,
    )
    assert batch.hex() == expected
    assert len(batch) == CONTROL_BATCH_BYTES


@pytest.mark.parametrize(("committed", "text"), [(False, _ABORT), (True, _COMMIT)])
def test_the_record_of_a_marker_is_read_back(committed: bool, text: str) -> None:
    record = bytes.fromhex(text)[HEADER_BYTES:]
    assert commits(record) is committed
    assert commits(record[:-1]) is None
    for place, other in ((0, 0x30), (4, 0x06), (8, 2)):  # lengths of record and key, type
        changed = bytearray(record)
        changed[place] = other
        assert commits(bytes(changed)) is None
