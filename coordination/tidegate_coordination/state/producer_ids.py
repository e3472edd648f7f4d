"""Which producer ids were given out, and roughly when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..events import ProducerIdsReserved
from .broken import expect


class ProducerIdTable:
    """Blocks of producer ids; unique for ever."""

    def __init__(self) -> None:
        self.next_id = 0
        self._blocks: list[tuple[int, int]] = []

    def fold_reserved(self, event: ProducerIdsReserved, log_time_ms: int) -> None:
        """Give a block to a gateway."""
        expect(event.first == self.next_id, f"producer ids from {event.first}")
        self.next_id = event.first + event.count
        self._blocks.append((event.first, log_time_ms))

    def fold_skipped(self, first: int) -> None:
        """Never give out ids below `first`; no id so far counts as young any more.

        What is younger than a backup may have written what the restored state does not know.
        """
        self.next_id = max(self.next_id, first)
        self._blocks = []

    def fold_expired(self, before_ms: int) -> None:
        """Forget when blocks were reserved, for those reserved before a log time."""
        self._blocks = [block for block in self._blocks if block[1] >= before_ms]

    def is_young(self, producer_id: int) -> bool:
        """Tell whether the id was reserved so lately that no state of it can have expired."""
        return bool(self._blocks) and self._blocks[0][0] <= producer_id < self.next_id

    def encode(self) -> object:
        """Return all of it as builtins."""
        return {"next": self.next_id, "blocks": [list(block) for block in self._blocks]}

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self.next_id = table["next"]
        self._blocks = [(first, since) for first, since in table["blocks"]]
