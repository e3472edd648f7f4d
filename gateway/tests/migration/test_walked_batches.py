"""Which batches of a source the walk accepts, and which times it finds."""

from __future__ import annotations

import pytest

from tests.worlds.wire_client import records_batch
from tidegate_coordination.client import walked_batches as walking
from tidegate_coordination.client.fetched_batches import (
    BadBatch,
    FetchedBatch,
    fetched_batches,
)
from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES, walked_batches
from tidegate_gateway.migration.mirror.walks import MirrorWalks
from tidegate_gateway.produce.record_checks import LOOP_COMPRESSED_BYTES
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol import batches as pb
from tidegate_protocol.compression import Codec
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.records import Record, build_batch, rebuild_batch

BASE = 10
RECORDS = [Record(at, 1000 + at * at, b"k", b"v%d" % at, (("h", b""),)) for at in range(5)]
CODECS = list(Codec)


def stored(raw: bytes, **head: int) -> bytes:
    """Return a batch as a leader stores it.  head: other values of header fields."""
    header = pb.read_header(raw)._replace(**head)
    data, _ = pb.with_header(memoryview(raw), header._replace(base_offset=BASE))
    return bytes(data)


def fetched(*raws: bytes) -> list[FetchedBatch]:
    found = fetched_batches(memoryview(b"".join(raws)), 0)
    assert len(found) == len(raws)
    return found


def walked(raw: bytes) -> FetchedBatch:
    [found] = walked_batches(fetched(raw), DECOMPRESSED_BYTES)
    assert found.data == raw
    return found


def seen(raw: bytes) -> tuple[int, bool]:
    """Return the largest time of the records, and whether the header has it."""
    found = walked(raw)
    return found.facts[1], found.is_walked


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_as_kafka_wrote_it(codec: Codec) -> None:
    raw = stored(build_batch(RECORDS, codec=codec))
    assert seen(raw) == (1016, True)
    assert walked(raw).facts == (5, 1016, *fetched(raw)[0].facts[2:])


@pytest.mark.parametrize("codec", CODECS)
def test_compaction_leaves_offsets_without_records(codec: Codec) -> None:
    header = pb.read_header(build_batch(RECORDS))._replace(max_timestamp=1009)
    left = [RECORDS[1], RECORDS[3]]
    raw = stored(rebuild_batch(header, left, codec=codec))
    assert seen(raw) == (1009, True)


def test_compaction_leaves_batches_without_records_for_the_sequences_of_producers() -> None:
    header = pb.read_header(build_batch(RECORDS, producer_id=7, base_sequence=0, producer_epoch=0))
    assert header.max_timestamp == 1016
    assert seen(stored(rebuild_batch(header, [], codec=0))) == (-1, True)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_without_records_has_nothing_to_decompress(codec: Codec) -> None:
    head = stored(build_batch(RECORDS))[: pb.HEADER_BYTES]
    length = pb.HEADER_BYTES - pb.LENGTH_OVERHEAD
    raw = stored(head, record_count=0, attributes=codec, batch_length=length)
    assert seen(raw) == (-1, True)


@pytest.mark.parametrize("horizon_ms", [0, 500, 1 << 41])
def test_deltas_count_from_a_delete_horizon(horizon_ms: int) -> None:
    header = pb.read_header(build_batch(RECORDS))
    header = header._replace(attributes=pb.DELETE_HORIZON, base_timestamp=horizon_ms)
    assert seen(stored(rebuild_batch(header, RECORDS, codec=0))) == (1016, True)


@pytest.mark.parametrize("codec", CODECS)
def test_records_have_the_time_of_the_broker_that_appended_them(codec: Codec) -> None:
    raw = build_batch(RECORDS, codec=codec)
    attributes = codec | pb.LOG_APPEND_TIME
    assert seen(stored(raw, attributes=attributes, max_timestamp=9_000)) == (9_000, True)


def test_a_marker_is_a_batch_of_one_record() -> None:
    raw = control_batch(
        base_offset=BASE,
        leader_epoch=3,
        timestamp_ms=9,
        producer_id=7,
        producer_epoch=1,
        committed=True,
    )
    assert seen(raw) == (9, True)


def test_records_without_a_time() -> None:
    assert seen(stored(build_batch([Record(0, -1, b"k", b"v")]))) == (-1, True)


@pytest.mark.parametrize("claimed", [-1, 0, 1015, 1 << 50])
@pytest.mark.parametrize("codec", CODECS)
def test_a_false_header_is_seen(claimed: int, codec: Codec) -> None:
    raw = stored(build_batch(RECORDS, codec=codec), max_timestamp=claimed)
    assert seen(raw) == (1016, False)


MALFORMED = {
    "fewer records": stored(build_batch(RECORDS), record_count=6),
    "more records": stored(build_batch(RECORDS), record_count=4),
    "beyond the last offset": stored(build_batch(RECORDS), last_offset_delta=3),
    "no codec": stored(build_batch(RECORDS), attributes=7),
    "not compressed": stored(build_batch(RECORDS), attributes=Codec.ZSTD),
    "no records but bytes": stored(build_batch(RECORDS), record_count=0),
    "header count": stored(build_batch([Record(0, 1, b"k", b"v")])[:-1] + b"\x02"),
}


@pytest.mark.parametrize("why", MALFORMED)
async def test_a_malformed_batch_is_refused_with_its_offset(why: str) -> None:
    walks = MirrorWalks(inline_pools().records, "src", DECOMPRESSED_BYTES)
    with pytest.raises(BadBatch, match="offset 10: the batch is malformed: "):
        await walks.walked(fetched(MALFORMED[why]))


async def test_the_batches_before_a_malformed_one_are_taken() -> None:
    batches = fetched(records_batch(b"v"), MALFORMED["more records"])
    walks = MirrorWalks(inline_pools().records, "src", DECOMPRESSED_BYTES)
    [found] = await walks.walked(batches)
    assert found.is_walked
    assert found.data == batches[0].data


def test_a_walk_of_much_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "DECOMPRESSED_BYTES", 1500)
    raw = stored(build_batch([Record(0, 1, None, bytes(1000))], codec=Codec.ZSTD))
    many = fetched(raw)[:1] * 3
    assert len(walked_batches(many, 2000)) == 2
    assert len(walked_batches(many[2:], 2000)) == 1


async def test_records_are_not_looked_at_without_validation() -> None:
    batches = fetched(MALFORMED["more records"])
    walks = MirrorWalks(inline_pools().records, "src", None)
    assert await walks.walked(batches) == batches
    assert not batches[0].is_walked


@pytest.mark.parametrize("size", [10, LOOP_COMPRESSED_BYTES, 3 << 20])
@pytest.mark.parametrize("codec", CODECS)
async def test_any_size_is_walked_and_bounded(size: int, codec: Codec) -> None:
    value = bytes(range(256)) * (size // 256) + bytes(size % 256)
    batches = fetched(stored(build_batch([Record(0, 1, None, value)], codec=codec)))
    pool = inline_pools().records
    [found] = await MirrorWalks(pool, "src", size + 100).walked(batches)
    assert found.is_walked
    if codec:
        with pytest.raises(BadBatch, match=f"larger than {size - 1} bytes when decompressed"):
            await MirrorWalks(pool, "src", size - 1).walked(batches)
