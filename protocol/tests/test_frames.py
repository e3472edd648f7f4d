from __future__ import annotations

import pytest

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import Frames, frame, split_frames


def test_frames_survive_any_split() -> None:
    wire = memoryview(frame(b"one") + frame(b"") + frame(b"three"))
    for cut in range(len(wire) + 1):
        first = split_frames(wire[:cut], max_frame_bytes=10)
        rest = split_frames(wire, first.rest_position, max_frame_bytes=10)
        found = [bytes(wire[start:end]) for start, end in first.whole + rest.whole]
        assert found == [b"one", b"", b"three"]
        assert rest.rest_position == len(wire)


def test_an_incomplete_frame_tells_its_size() -> None:
    wire = memoryview(frame(b"one") + frame(b"three"))
    assert split_frames(wire[:7], max_frame_bytes=10) == Frames([(4, 7)], 7, 0)
    assert split_frames(wire[:10], max_frame_bytes=10) == Frames([(4, 7)], 7, 0)
    assert split_frames(wire[:10], max_frame_bytes=10).missing_bytes == 4
    assert split_frames(wire[:11], max_frame_bytes=10) == Frames([(4, 7)], 7, 9)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes, limit 10"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\x00\x00\x00\x0b", "frame of 11 bytes, limit 10"),
        (b"\x16\x03\x01\x02", "client spoke TLS to a PLAINTEXT listener"),
        (b"GET / HTTP/1.1", "client spoke HTTP"),
        (b"POST /topics", "client spoke HTTP"),
    ],
)
def test_the_error_of_a_refused_length_names_the_limit(head: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        split_frames(memoryview(frame(b"one") + head), max_frame_bytes=10)
