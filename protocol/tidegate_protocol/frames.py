"""Kafka's outer framing: a 4-byte big-endian length, then that many bytes.  No I/O here.

The bytes lie in an arena that the connection owns and reuses; nothing is copied.  ``split_frames``
says where the whole frames are and how large the one after them will be, so that the connection
can keep on reading into the arena, or move the incomplete frame to a larger one.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from .errors import RemoteProtocolError
from .primitives import Buffer

LENGTH_BYTES = 4

_LENGTH = Struct(">i")
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_VERBS = (b"GET ", b"PUT ", b"POST", b"HEAD", b"OPTI", b"CONN", b"DELE", b"PATC", b"PRI ")


class Frames(NamedTuple):
    """The frames that lie in the received bytes.

    Attributes:
      whole: (start, end) of each complete frame, without its length.
      rest_position: where the first incomplete frame starts, its length included.
      rest_bytes: size of that frame, its length included; 0 while its length is not known.
    """

    whole: list[tuple[int, int]]
    rest_position: int
    rest_bytes: int

    @property
    def missing_bytes(self) -> int:
        """The least bytes that the incomplete frame takes, counted from rest_position."""
        return max(self.rest_bytes, LENGTH_BYTES)


def split_frames(data: memoryview, position: int = 0, *, max_frame_bytes: int) -> Frames:
    """Find the frames in data, from position to the end of data.

    Args:
      data: the received bytes, not the whole arena.
      max_frame_bytes: refuse a longer frame, so that a stray TLS or HTTP client cannot make us
          buffer gigabytes.  Kafka's own default (socket.request.max.bytes) is 100 MiB.

    Raises:
      RemoteProtocolError: a length is negative or above max_frame_bytes.  The frames before it are
          lost with the connection.
    """
    whole: list[tuple[int, int]] = []
    end = len(data)
    while position + LENGTH_BYTES <= end:
        (length,) = _LENGTH.unpack_from(data, position)
        if not 0 <= length <= max_frame_bytes:
            raise RemoteProtocolError(_why_refused(data, position, length, max_frame_bytes))
        start = position + LENGTH_BYTES
        if start + length > end:
            return Frames(whole, position, LENGTH_BYTES + length)
        position = start + length
        whole.append((start, position))
    return Frames(whole, position, 0)


def _why_refused(data: memoryview, position: int, length: int, max_frame_bytes: int) -> str:
    head = bytes(data[position : position + LENGTH_BYTES])
    if head.startswith(_TLS_HANDSHAKE):
        return "client spoke TLS to a PLAINTEXT listener"
    if head in _HTTP_VERBS:
        return "client spoke HTTP to a Kafka listener"
    return f"frame of {length} bytes, limit {max_frame_bytes}"


def frame(body: Buffer) -> bytes:
    """Return body preceded by its length."""
    return _LENGTH.pack(len(body)) + body
