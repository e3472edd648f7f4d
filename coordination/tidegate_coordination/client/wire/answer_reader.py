"""Received bytes into frames.  Pure.

Each frame has separate memory.  So slices of a frame, such as the records of a fetch, stay valid
for as long as they are used, and keep no other memory alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import LENGTH_BYTES

_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = b"HTTP"


class AnswerReader:
    """Takes bytes as they arrive.

    max_bytes: refuse a longer frame, so that a stray server cannot make us buffer gigabytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._length = bytearray()
        self._frame: memoryview | None = None
        self._filled = 0

    @property
    def missing_bytes(self) -> int:
        """Bytes until the frame under way is whole; 0 while its size is not known."""
        return len(self._frame) - self._filled if self._frame is not None else 0

    def receive(self, data: bytes | bytearray) -> Iterator[memoryview]:
        """Yield each frame that is whole now, without its length.

        Raises:
          RemoteProtocolError: a length is negative or above max_bytes.
        """
        rest = memoryview(data)
        while rest:
            rest = self._take_length(rest) if self._frame is None else self._fill(self._frame, rest)
            if self._frame is not None and self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                yield frame

    def _take_length(self, rest: memoryview) -> memoryview:
        missing = LENGTH_BYTES - len(self._length)
        self._length += rest[:missing]
        if len(self._length) == LENGTH_BYTES:
            size = int.from_bytes(self._length, "big", signed=True)
            if not 0 <= size <= self._max_bytes:
                raise RemoteProtocolError(self._why_refused(size))
            self._frame, self._filled = memoryview(bytearray(size)), 0
            self._length.clear()
        return rest[missing:]

    def _fill(self, frame: memoryview, rest: memoryview) -> memoryview:
        size = min(len(frame) - self._filled, len(rest))
        frame[self._filled : self._filled + size] = rest[:size]
        self._filled += size
        return rest[size:]

    def _why_refused(self, size: int) -> str:
        if self._length.startswith(_TLS_ALERT):
            return "it speaks TLS: set security.protocol=SSL or SASL_SSL"
        if bytes(self._length) == _HTTP:
            return "it speaks HTTP, so it is no broker"
        return f"it sent an answer of {size} bytes, and the limit is {self._max_bytes}"
