"""Offsets and leader epochs of mirrored batches are verified: no CRC of a batch covers them."""

from __future__ import annotations

import pytest

from tidegate_protocol.batches import crc_matches, read_header
from tidegate_protocol.records import Record, build_batch
from tidegate_storage.objects.prepared_runs import CommittedRun, CorruptBatches, prepare_wal_run
from tidegate_storage.objects.runs import headed_crc, run_check

TOPIC = b"t" * 16
EPOCH_AT = 15


def stored(base_offset: int) -> bytes:
    raw = bytearray(build_batch([Record(0, 1, None, b"v")]))
    raw[0:8] = base_offset.to_bytes(8, "big")
    raw[12:16] = (7).to_bytes(4, "big")
    return bytes(raw)


def run_of(*batches: bytes) -> CommittedRun:
    heads = [read_header(each) for each in batches]
    crcs = [headed_crc(each.crc, each.base_offset, each.leader_epoch) for each in heads]
    end = heads[-1].last_offset + 1
    length = sum(map(len, batches))
    check = run_check(TOPIC, 0, crcs)
    return CommittedRun(TOPIC, 0, 5, end, length, check, -1, 7, is_final=True, is_headed=True)


def test_whole_batches_are_served() -> None:
    batches = stored(5), stored(9)
    prepared = prepare_wal_run(memoryview(bytearray(b"".join(batches))), run_of(*batches))
    assert bytes(prepared.view) == b"".join(batches)


@pytest.mark.parametrize("flipped", [EPOCH_AT, 7])
def test_a_flipped_bit_outside_of_the_crc_is_found(flipped: int) -> None:
    batches = stored(5), stored(9)
    raw = bytearray(b"".join(batches))
    at = len(batches[0]) + flipped if flipped == 7 else flipped
    raw[at] ^= 1
    header = read_header(raw, at - flipped)
    assert crc_matches(memoryview(raw), at - flipped, header)
    with pytest.raises(CorruptBatches):
        prepare_wal_run(memoryview(raw), run_of(*batches))
