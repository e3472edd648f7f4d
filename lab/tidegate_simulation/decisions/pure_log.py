"""A metadata log in memory: the first entry at a position wins."""

from __future__ import annotations

from collections.abc import Sequence


class PureLog:
    """Positions begin at 1."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def append(self, position: int, payload: bytes) -> bool:
        """Append if the position is the next one; return whether it was.

        Raises:
          ValueError: the position lies beyond the end, so the caller skips entries.
        """
        if position > len(self.payloads) + 1:
            raise ValueError(f"position {position} is beyond the end, {len(self.payloads)}")
        if position <= len(self.payloads):
            return False
        self.payloads.append(payload)
        return True

    def read(self, position: int, count: int) -> Sequence[bytes]:
        """Return at most `count` entries from a position on."""
        return self.payloads[position - 1 : position - 1 + count]
