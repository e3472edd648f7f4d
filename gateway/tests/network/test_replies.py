"""Replies leave in the order of requests, joined below a size and in parts above it."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate_gateway.network.replies import JOIN_BELOW_BYTES, ReplyLine
from tidegate_gateway.network.transport import MAX_PARTS
from tidegate_storage.stores.files.file_part import FilePart


def test_a_reply_waits_for_those_before_it() -> None:
    line = ReplyLine()
    first, second = line.open_slot(), line.open_slot()
    second.fill([b"second"])
    assert not line.collect()
    assert (line.held_bytes, line.unsent_bytes) == (6, 0)
    first.fill([b"fir", b"st "])
    assert line.collect()
    assert line.parts() == [b"first second"]
    assert (line.held_bytes, line.unsent_bytes) == (0, 12)


def test_large_parts_are_not_copied() -> None:
    line = ReplyLine()
    large = bytes(JOIN_BELOW_BYTES)
    line.open_slot().fill([b"head", large, b"tail"])
    line.open_slot().fill([b"next"])
    line.collect()
    parts = line.parts()
    assert parts == [b"head", large, b"tailnext"]
    assert parts[1] is large


def test_parts_are_bounded() -> None:
    line = ReplyLine()
    for _ in range(MAX_PARTS + 5):
        line.open_slot().fill([bytes(JOIN_BELOW_BYTES)])
    line.collect()
    assert len(line.parts()) == MAX_PARTS


@given(
    st.lists(st.lists(st.binary(max_size=9), max_size=3), max_size=8),
    st.lists(st.integers(1, 10), min_size=1),
)
def test_any_way_of_sending_gives_the_same_bytes(
    replies: list[list[bytes]], sizes: list[int]
) -> None:
    line = ReplyLine()
    received = b""
    for parts in replies:
        line.open_slot().fill(parts)
    line.collect()
    place = 0
    while line.unsent_bytes:
        wire = b"".join(bytes(part) for part in line.parts() if not isinstance(part, FilePart))
        size = min(sizes[place % len(sizes)], len(wire))
        received += wire[:size]
        line.sent(size)
        place += 1
    assert received == b"".join(b"".join(parts) for parts in replies)
