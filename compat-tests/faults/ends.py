"""Finds EndTxn requests in what a client sends.  No I/O here."""

from __future__ import annotations

from struct import Struct
from typing import Final

END_TXN: Final = 26
_HEAD: Final = Struct(">ih")  # the size of a frame, and its API key


class EndFinder:
    """Splits the bytes of one connection before each EndTxn request."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def split(self, data: bytes) -> list[tuple[bool, bytes]]:
        """Return pieces, each with whether it begins with an EndTxn request.

        The last bytes wait for more bytes if they are too few to show the API.
        """
        pieces: list[tuple[bool, bytes]] = []
        while data:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._left -= len(piece)
                _join(pieces, piece)
                continue
            missing = _HEAD.size - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == _HEAD.size:
                size, key = _HEAD.unpack(self._head)
                self._left = max(0, size - 2)
                if key == END_TXN:
                    pieces.append((True, self._head))
                else:
                    _join(pieces, self._head)
                self._head = b""
        return pieces


def _join(pieces: list[tuple[bool, bytes]], piece: bytes) -> None:
    is_end, before = pieces.pop() if pieces else (False, b"")
    pieces.append((is_end, before + piece))
