"""How the relay finds EndTxn requests."""

from __future__ import annotations

import struct

import pytest
from faults.ends import EndFinder


def frame(key: int, body: bytes = b"") -> bytes:
    return struct.pack(">ihh", 4 + len(body), key, 1) + body


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_ends_are_found_however_the_bytes_are_cut(step: int) -> None:
    stream = frame(0, b"x" * 40) + frame(26, b"end") + frame(3) + frame(26) + frame(26, b"z" * 9)
    finder, pieces = EndFinder(), []
    for at in range(0, len(stream), step):
        pieces += finder.split(stream[at : at + step])
    assert b"".join(piece for _, piece in pieces) == stream
    begins = [0]
    for _, piece in pieces:
        begins.append(begins[-1] + len(piece))
    ends = [begin for begin, (is_end, _) in zip(begins, pieces, strict=False) if is_end]
    first = len(frame(0, b"x" * 40))
    second = first + len(frame(26, b"end")) + len(frame(3))
    assert ends == [first, second, second + len(frame(26))]
