"""WAL objects: reading returns what was appended, and detects all damage."""

from __future__ import annotations

from itertools import groupby
from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.wal import OpenWal, SealedWal, Slice, Source, WalIdentity, read_wal
from tidegate_storage.objects.wal_format import END_MAGIC, HEADER, MAJOR_VERSION, TRAILER

TOPICS = [bytes(15) + bytes([number]) for number in range(3)]
IDENTITY = WalIdentity(3, 42, 7)

APPENDS = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 2**31 - 1) | st.integers(0, 2),
        st.binary(min_size=1, max_size=40),
        st.integers(1, 1000),
        st.integers(-1, 2**62),
    ),
    max_size=30,
)
Append = tuple[bytes, int, bytes, int, int]


def _sealed(appends: list[Append], identity: WalIdentity = IDENTITY) -> SealedWal:
    wal = OpenWal()
    for token, append in enumerate(appends):
        wal.append(*append, token)
    return wal.seal(identity)


def _three_batches() -> SealedWal:
    return _sealed(
        [
            (TOPICS[1], 3, b"yyy", 2, 20),
            (TOPICS[0], 0, b"xx", 1, 10),
            (TOPICS[1], 3, b"z", 1, 15),
        ]
    )


def test_a_partition_is_one_slice_in_sorted_order() -> None:
    sealed = _three_batches()
    assert bytes(sealed.body[32:38]) == b"xx" + b"yyyz"
    assert sealed.slices == [
        (TOPICS[0], 0, 32, 2, 1, 10, 10, crc32c(b"xx")),
        (TOPICS[1], 3, 34, 4, 3, 15, 20, crc32c(b"yyyz")),
    ]
    assert sealed.batches == [
        (TOPICS[0], 0, 32, 2, 1, 10, 1),
        (TOPICS[1], 3, 34, 3, 2, 20, 0),
        (TOPICS[1], 3, 37, 1, 1, 15, 2),
    ]


def test_the_bytes_are_those_of_the_published_layout() -> None:
    """The bytes are written by hand from the table in README.md, on which other programs rely."""
    header = b"TIDEWAL\n" + pack(">HHiqq", 1, 1, 3, 42, 7)
    footer = pack(">I", 1) + TOPICS[2] + pack(">iQIQqqI", 5, 32, 4, 9, 77, 77, crc32c(b"body"))
    tag = pack(">IIqqI", 3, 20, 41, 6, 4)
    footers = {None: footer + pack(">I", 0), (41, 6): footer + pack(">I", 1) + tag}
    for source, whole in footers.items():
        place = pack(">QI", 36, len(whole))
        trailer = place + pack(">I", crc32c(header + whole + place)) + b"\nLAWEDIT"
        wal = OpenWal()
        wal.append(TOPICS[2], 5, b"body", 9, 77, source)
        sealed = wal.seal(IDENTITY, source_of=None if source is None else lambda _: (41, 6))
        assert sealed.body == header + b"body" + whole + trailer


def test_sources_of_moved_batches_are_read_back() -> None:
    wal = OpenWal()
    for partition, body, counter in ((1, b"abc", 5), (0, b"de", 5), (1, b"f", 6), (0, b"g", 5)):
        wal.append(TOPICS[0], partition, body, 1, 7, (4, counter))
    sealed = wal.seal(IDENTITY, source_of=_token)
    assert sealed.sources == (Source(4, 5, 6), Source(4, 6, 1))
    contents = read_wal(sealed.body)
    assert contents.sources == sealed.sources
    assert contents.slices == sealed.slices
    assert read_wal(_three_batches().body).sources == ()


def _token(token: object) -> tuple[int, int]:
    assert isinstance(token, tuple)
    return token


def test_sources_that_do_not_cover_the_batches_are_refused() -> None:
    sealed = _three_batches()
    total = sum(each.size_bytes for each in sealed.slices)
    for length in (total - 1, total + 1):
        tag = pack(">I", 1) + pack(">IIqqI", 3, 20, 4, 5, length)
        with pytest.raises(CorruptObject, match="sources"):
            read_wal(_with_footer(sealed, tag, minor=1))
    cut = pack(">I", 1) + pack(">II", 3, 19) + bytes(19)
    with pytest.raises(CorruptObject, match="footer"):
        read_wal(_with_footer(sealed, cut, minor=1))


@given(APPENDS)
def test_appended_batches_are_read_back(appends: list[Append]) -> None:
    sealed = _sealed(appends)
    contents = read_wal(sealed.body)
    assert contents.identity == IDENTITY
    assert contents.slices == sealed.slices
    wanted = {
        partition: b"".join(append[2] for append in group)
        for partition, group in groupby(sorted(appends, key=_partition), key=_partition)
    }
    found = {(s.topic_id, s.partition): bytes(contents.bytes_of(s)) for s in contents.slices}
    assert found == wanted
    assert list(found) == sorted(found)


@given(APPENDS)
def test_each_batch_is_placed_once_with_its_own_token(appends: list[Append]) -> None:
    sealed = _sealed(appends)
    tokens = [batch.token for batch in sealed.batches]
    assert sorted(tokens, key=str) == sorted(range(len(appends)), key=str)
    assert tokens == sorted(range(len(appends)), key=lambda token: _partition(appends[token]))
    for batch in sealed.batches:
        topic_id, partition, body, record_count, max_timestamp = appends[int(str(batch.token))]
        place = slice(batch.start_byte, batch.start_byte + batch.size_bytes)
        assert sealed.body[place] == body
        assert batch[:2] == (topic_id, partition)
        assert batch[4:6] == (record_count, max_timestamp)


@given(APPENDS)
def test_a_slice_sums_up_its_batches(appends: list[Append]) -> None:
    sealed = _sealed(appends)
    for entry in sealed.slices:
        batches = [batch for batch in sealed.batches if batch[:2] == entry[:2]]
        assert entry.record_count == sum(batch.record_count for batch in batches)
        assert entry.min_timestamp == min(batch.max_timestamp for batch in batches)
        assert entry.max_timestamp == max(batch.max_timestamp for batch in batches)


def test_the_open_object_counts_what_it_holds() -> None:
    wal = OpenWal()
    assert (wal.size_bytes, wal.batch_count) == (0, 0)
    for partition in (1, 2, 1):
        wal.append(TOPICS[0], partition, memoryview(b"four"), 1, 0, None)
    assert (wal.size_bytes, wal.batch_count) == (12, 3)


def test_append_keeps_the_buffer_and_seal_copies_it() -> None:
    buffer = bytearray(b"early")
    wal = OpenWal()
    wal.append(TOPICS[0], 0, memoryview(buffer), 1, 0, None)
    buffer[:] = b"later"
    sealed = wal.seal(IDENTITY)
    buffer[:] = b"wrong"
    assert sealed.body[32:37] == b"later"
    sealed.body[32:40] = b"patched!"  # possible because no memoryview of the buffer is left


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_damage_of_any_byte_is_detected(position: int, flipped_bits: int) -> None:
    body = _three_batches().body
    body[position % len(body)] ^= flipped_bits
    with pytest.raises((CorruptObject, UnknownVersion)):
        read_wal(body)


def test_damage_of_every_byte_is_detected() -> None:
    body = _three_batches().body
    for position in range(len(body)):
        body[position] ^= 0x01
        with pytest.raises((CorruptObject, UnknownVersion)):
            read_wal(body)
        body[position] ^= 0x01
    read_wal(body)


def test_an_object_that_was_cut_or_grew_is_refused() -> None:
    body = bytes(_three_batches().body)
    for size in range(len(body)):
        with pytest.raises(CorruptObject):
            read_wal(body[:size])
    with pytest.raises(CorruptObject):
        read_wal(body + b"\0")
    with pytest.raises(CorruptObject):
        read_wal(body + body)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(tail: bytes) -> None:
    with pytest.raises(CorruptObject):
        read_wal(tail)
    with pytest.raises(CorruptObject):
        read_wal(bytes(_three_batches().body[:40]) + tail + END_MAGIC)


def test_the_error_names_the_damaged_slice() -> None:
    body = _three_batches().body
    body[35] ^= 1
    with pytest.raises(CorruptObject, match=f"topic {TOPICS[1].hex()} partition 3, 4 bytes"):
        read_wal(body)


def test_the_error_names_a_newer_major_version() -> None:
    body = _three_batches().body
    body[8:10] = pack(">H", MAJOR_VERSION + 1)
    with pytest.raises(UnknownVersion, match="has format 2; this release reads format 1"):
        read_wal(body)


def test_a_newer_minor_version_with_tags_is_read() -> None:
    sealed = _three_batches()
    tags = pack(">I", 2) + pack(">II", 9, 3) + b"abc" + pack(">II", 10, 0)
    contents = read_wal(_with_footer(sealed, tags, minor=4))
    assert contents.slices == sealed.slices


@pytest.mark.parametrize(
    "tags",
    [b"", pack(">I", 1), pack(">I", 1) + pack(">II", 9, 3) + b"ab", pack(">I", 0) + b"more"],
)
def test_a_malformed_footer_is_refused_even_with_a_right_crc(tags: bytes) -> None:
    with pytest.raises(CorruptObject, match="footer"):
        read_wal(_with_footer(_three_batches(), tags, minor=0))


def test_slices_that_overlap_or_are_out_of_order_are_refused() -> None:
    first, second = _three_batches().slices
    swapped = [second._replace(start_byte=32), first._replace(start_byte=36)]
    for slices in (
        swapped,
        [first, second._replace(start_byte=33)],
        [first, second._replace(size_bytes=3)],
        [first, first._replace(start_byte=34, size_bytes=4)],
    ):
        with pytest.raises(CorruptObject, match="slice"):
            read_wal(_with_slices(slices))


def _partition(append: Append) -> tuple[bytes, int]:
    return append[:2]


def _with_footer(sealed: SealedWal, tags: bytes, *, minor: int) -> bytes:
    """Return the object with other bytes after its footer's entries, and a matching CRC."""
    footer_position = sealed.slices[-1].start_byte + sealed.slices[-1].size_bytes
    entries = bytes(sealed.body[footer_position : -TRAILER.size - 4])
    header = b"TIDEWAL\n" + pack(">HHiqq", MAJOR_VERSION, minor, *IDENTITY)
    return _framed(header, bytes(sealed.body[HEADER.size : footer_position]), entries + tags)


def _with_slices(slices: list[Slice]) -> bytes:
    entries = b"".join(pack(">16siQIQqqI", *entry) for entry in slices)
    footer = pack(">I", len(slices)) + entries + pack(">I", 0)
    header = b"TIDEWAL\n" + pack(">HHiqq", MAJOR_VERSION, 0, *IDENTITY)
    return _framed(header, b"xxyyyz", footer)


def _framed(header: bytes, slices: bytes, footer: bytes) -> bytes:
    place = pack(">QI", len(header) + len(slices), len(footer))
    crc = pack(">I", crc32c(header + footer + place))
    return header + slices + footer + place + crc + END_MAGIC
