"""Replaces names that differ between brokers: producer ids, epochs, member ids, topic ids."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

_NONE: Final = -1


class Names:
    """The names of one broker in one script, numbered in order of first sight.

    Epochs are compared as they are, but one broker may bump an epoch once more than another: see
    `skip_epoch`.  left_out: differences that were left out of the comparison.
    """

    def __init__(self) -> None:
        self.left_out: Final[set[str]] = set()
        self._producers: Final[dict[int, str]] = {}
        self._members: Final[dict[str, str]] = {}
        self._topics: Final[dict[bytes, str]] = {}
        self._skipped: Final[defaultdict[int, list[int]]] = defaultdict(list)

    def note(self, name: str) -> None:
        """Note a difference that is left out of the comparison."""
        self.left_out.add(name)

    def note_producer(self, producer_id: int) -> None:
        """Number a producer id that the broker has given out."""
        if producer_id != _NONE and producer_id not in self._producers:
            self._producers[producer_id] = f"producer {len(self._producers)}"

    def producer(self, producer_id: int) -> str:
        """Return the name of a producer id."""
        return self._producers.get(producer_id, str(producer_id))

    def skip_epoch(self, producer_id: int, epoch: int) -> None:
        """Note that the broker has skipped an epoch, and has now given out this one."""
        self._skipped[producer_id].append(epoch)

    def epoch(self, producer_id: int, epoch: int) -> int:
        """Return an epoch less the number of epochs that were skipped up to it."""
        return epoch - sum(epoch >= each for each in self._skipped.get(producer_id, ()))

    def raw_epoch(self, producer_id: int, epoch: int) -> int:
        """Return the broker's latest epoch for which epoch() returns this one."""
        raw = epoch
        while self.epoch(producer_id, raw + 1) <= epoch:
            raw += 1
        return raw

    def member(self, member_id: str) -> str:
        """Return the name of a member id."""
        if not member_id:
            return ""
        return self._members.setdefault(member_id, f"member {len(self._members)}")

    def note_topic(self, topic_id: bytes, name: str) -> None:
        """Note a topic's id.  A topic of the same name may have been deleted before."""
        self._topics.setdefault(topic_id, f"{name}, {len(self._topics)}")

    def topic(self, topic_id: bytes) -> str:
        """Return the name of a topic id."""
        return self._topics.get(topic_id, topic_id.hex())
