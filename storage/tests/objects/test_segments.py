"""Segments: reading returns what was built, detects all damage, and checks versions."""

from __future__ import annotations

from random import Random
from struct import pack_into

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidegate_protocol.batches import set_base_offset
from tidegate_protocol.records import Record, build_batch, read_header
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.prepared_runs import CorruptBatches, prepare_chunk
from tidegate_storage.objects.segment_format import (
    HEADER_BYTES,
    AbortedTransaction,
    read_segment,
    read_tail,
)
from tidegate_storage.objects.segments import FinalBatch, SealedSegment, SegmentBuilder

TOPIC = bytes(range(16))
BASE = 1000


def batch(base_offset: int, values: int, timestamp: int = 5) -> FinalBatch:
    records = [Record(at, timestamp + at, None, b"value %d" % at) for at in range(values)]
    data = bytearray(build_batch(records))
    set_base_offset(data, 0, base_offset=base_offset, leader_epoch=0)
    return FinalBatch(data, base_offset + values, values, timestamp + values - 1)


def sealed(sizes: list[int], chunk_bytes: int = 150) -> SealedSegment:
    builder = SegmentBuilder(TOPIC, 3, BASE, chunk_bytes=chunk_bytes)
    offset = BASE
    for size in sizes:
        builder.append(batch(offset, size))
        offset += size
    builder.add_aborted(AbortedTransaction(7, BASE + 1, BASE + 2))
    return builder.seal(offset)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(1, 2000))
def test_a_built_segment_is_read_back(sizes: list[int], chunk_bytes: int) -> None:
    segment = sealed(sizes, chunk_bytes)

    index = read_segment(segment.body)

    assert index == segment.index
    assert (index.topic_id, index.partition) == (TOPIC, 3)
    assert (index.base_offset, index.next_offset) == (BASE, BASE + sum(sizes))
    assert sum(chunk.record_count for chunk in index.chunks) == segment.record_count == sum(sizes)
    assert max(chunk.max_timestamp for chunk in index.chunks) == segment.max_timestamp
    assert sum(chunk.batch_count for chunk in index.chunks) == len(sizes)
    assert index.aborted == (AbortedTransaction(7, BASE + 1, BASE + 2),)
    view = memoryview(segment.body)
    found: list[int] = []
    for chunk in index.chunks:
        run = prepare_chunk(view[chunk.position : chunk.position + chunk.length], chunk)
        found += run.base_offsets
        assert run.next_offset == chunk.next_offset
        assert [read_header(run.batch(at)).base_offset for at in range(len(run))] == list(
            run.base_offsets
        )
        assert run.end_offset == chunk.next_offset
    assert found == [BASE + sum(sizes[:at]) for at in range(len(sizes))]


def test_the_tail_of_a_segment_gives_its_index() -> None:
    segment = sealed([3, 4, 5])
    position = HEADER_BYTES + segment.length
    assert read_tail(segment.body[position:], position) == segment.index


def test_every_flipped_byte_of_a_segment_is_detected() -> None:
    segment = sealed([3, 4, 5])
    for position in range(len(segment.body)):
        damaged = bytearray(segment.body)
        damaged[position] ^= 0x41
        with pytest.raises((CorruptObject, UnknownVersion)):
            read_segment(damaged)


@pytest.mark.parametrize("cut", [1, 30, 100, 10_000])
def test_a_segment_cut_short_is_refused(cut: int) -> None:
    body = sealed([3, 4, 5]).body
    with pytest.raises(CorruptObject):
        read_segment(body[: max(len(body) - cut, 0)])


def test_the_error_names_a_newer_segment_format(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = sealed([1])
    position = HEADER_BYTES + segment.length
    with monkeypatch.context() as patch:
        patch.setattr("tidegate_storage.objects.segment_format.MAJOR_VERSION", 2)
        newer = sealed([1]).body
    text = "a newer release wrote this segment: it has format 2, this release reads format 1"
    with pytest.raises(UnknownVersion, match=text):
        read_segment(newer)
    with pytest.raises(UnknownVersion, match=text):
        read_segment(segment.body[:8] + newer[8:10] + segment.body[10:])
    with pytest.raises(UnknownVersion, match=text):
        read_tail(newer[position:], position)


def test_a_minor_version_of_a_segment_may_add_tags() -> None:
    """A reader skips a tag that this release does not know."""
    segment = sealed([2])
    position = HEADER_BYTES + segment.length
    tail = segment.body[position:]
    footer = bytearray(tail[: -len(_trailer(tail))])
    at = len(footer) - (8 + 24) - 4
    assert int.from_bytes(footer[at : at + 4], "big") == 1
    footer[at : at + 4] = (2).to_bytes(4, "big")
    footer += (99).to_bytes(4, "big") + (3).to_bytes(4, "big") + b"new"
    place = position.to_bytes(8, "big") + len(footer).to_bytes(4, "big")
    crc = crc32c(place, crc32c(bytes(footer))).to_bytes(4, "big")
    index = read_tail(bytes(footer) + place + crc + b"\nGESEDIT", position)
    assert index.chunks == segment.index.chunks
    assert index.aborted == segment.index.aborted


@pytest.mark.parametrize("chunk_bytes", [1, 10_000])
def test_gaps_that_compaction_left_belong_to_the_next_batch(chunk_bytes: int) -> None:
    builder = SegmentBuilder(TOPIC, 0, BASE, chunk_bytes=chunk_bytes)
    for base_offset in (BASE + 5, BASE + 10):
        builder.append(batch(base_offset, 2))
    segment = builder.seal(BASE + 50)
    assert read_segment(segment.body) == segment.index
    view = memoryview(segment.body)
    found: dict[int, int] = {}
    for chunk in segment.index.chunks:
        run = prepare_chunk(view[chunk.position : chunk.position + chunk.length], chunk)
        for offset in range(chunk.base_offset, min(run.end_offset, chunk.next_offset)):
            found[offset] = read_header(run.batch(run.find(offset))).base_offset
    assert found == {
        offset: BASE + 5 if offset < BASE + 7 else BASE + 10 for offset in range(BASE, BASE + 12)
    }
    assert segment.index.chunks[-1].next_offset == BASE + 50


def test_an_aborted_transaction_is_stored_once() -> None:
    builder = SegmentBuilder(TOPIC, 0, BASE)
    builder.append(batch(BASE, 1))
    noted = [AbortedTransaction(7, 1, BASE), AbortedTransaction(5, 2, BASE)]
    for each in (noted[0], *noted, noted[0]):
        builder.add_aborted(each)
    assert list(read_segment(builder.seal(BASE + 1).body).aborted) == noted


def test_a_wrong_chunk_is_refused() -> None:
    segment = sealed([1])
    [chunk] = segment.index.chunks
    region = bytearray(segment.body[chunk.position : chunk.position + chunk.length])
    region[-1] ^= 1
    with pytest.raises(CorruptBatches, match="CRC"):
        prepare_chunk(memoryview(region), chunk)


def _trailer(tail: bytearray) -> bytearray:
    return tail[-24:]


@pytest.mark.parametrize(
    ("position", "number", "reason"),
    [
        (8, -100, "no batch of -100 bytes"),
        (8, 10**6, "no batch of 1000000 bytes"),
        (8, 0, "no batch of 0 bytes"),
        (23, -1, "can lie here"),
        (23, 100, "holds records up to 1101, beyond 1002"),
    ],
)
def test_a_malformed_chunk_with_a_right_crc_is_refused(
    position: int, number: int, reason: str
) -> None:
    """Its CRC is right, but its headers are not; the reader must still terminate."""
    segment = sealed([2], chunk_bytes=1)
    [chunk] = segment.index.chunks
    region = bytearray(segment.body[chunk.position : chunk.position + chunk.length])
    pack_into(">i", region, position, number)
    wrong = chunk._replace(crc32c=crc32c(bytes(region)))
    with pytest.raises(CorruptBatches, match=reason):
        prepare_chunk(memoryview(region), wrong)


def test_a_reader_finds_the_aborted_transactions_of_its_range() -> None:
    rng = Random(1)
    for _ in range(100):
        noted: list[AbortedTransaction] = []
        for producer in range(rng.randrange(30)):
            first = rng.randrange(BASE, BASE + 50)
            noted.append(AbortedTransaction(producer, first, first + rng.choice([1, 2, 30])))
        builder = SegmentBuilder(TOPIC, 3, BASE)
        for each in noted:
            builder.add_aborted(each)
        builder.append(batch(BASE, 1))
        index = read_segment(builder.seal(BASE + 1).body)
        start = rng.randrange(BASE, BASE + 60)
        end = start + rng.randrange(40)
        expected = {each for each in noted if each.last_offset >= start and each.first_offset < end}
        assert set(index.aborted_between(start, end)) == expected
