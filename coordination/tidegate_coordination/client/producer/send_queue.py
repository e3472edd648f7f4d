"""The records of one partition that wait to be written, and the batch of them that is under way.

One batch of a partition is under way at a time, and a record leaves the queue once it is
acknowledged.  So order holds, the sequence of the next batch is known, and what was not written can
be named.  Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate_protocol.records import Headers, Record, build_batch

from .input_lines import InputRecord

BATCH_BYTES: Final = 512 << 10
"""The most bytes, before compression, of a batch with several records: half of a broker's default
limit.
"""
_SEQUENCES: Final = 1 << 31
_OVERHEAD_BYTES: Final = 16
"""The bytes that a record takes in a batch beside its content."""


class ProducerId(NamedTuple):
    """The id that makes repeats harmless (KIP-98): the broker drops a batch that it has already."""

    producer_id: int
    epoch: int


class Waiting(NamedTuple):
    """A record that waits, with its time in milliseconds since 1970."""

    record: InputRecord
    timestamp: int


@dataclass(slots=True, eq=False)
class SendQueue:
    """See the module's head.

    next_sequence: the sequence number of the next batch.  batch_records: the most that the next
    batch may have; None for no bound.  under_way: the bytes of the batch; b"" for none.
    first_sent: when the batch was first sent, by trio's clock.  may_be_written: a try of the batch
    has no known outcome.
    """

    partition: int
    waiting: deque[Waiting] = field(default_factory=deque[Waiting])
    next_sequence: int = 0
    batch_records: int | None = None
    under_way: bytes = b""
    count: int = 0
    first_sent: float = 0.0
    may_be_written: bool = False

    def add(self, record: InputRecord, timestamp: int) -> None:
        """Append a record."""
        self.waiting.append(Waiting(record, timestamp))

    def make_batch(
        self, headers: Headers, *, codec: int, producer: ProducerId | None, now: float
    ) -> None:
        """Make a batch of the first records, unless one is under way: that one is sent again."""
        if self.under_way:
            return
        records: list[Record] = []
        each_bytes = _OVERHEAD_BYTES + sum(len(name) + len(value or b"") for name, value in headers)
        size = 0
        for (_, key, value), timestamp in self.waiting:
            size += each_bytes + len(key or b"") + len(value or b"")
            if records and (size > BATCH_BYTES or len(records) == self.batch_records):
                break
            records.append(Record(len(records), timestamp, key, value, headers))
        ids = producer or ProducerId(-1, -1)
        self.under_way = build_batch(
            records,
            codec=codec,
            producer_id=ids.producer_id,
            producer_epoch=ids.epoch,
            base_sequence=-1 if producer is None else self.next_sequence,
        )
        self.count, self.first_sent = len(records), now

    def acknowledged(self) -> int:
        """Drop the records of the batch; return the bytes of memory that they held."""
        freed = 0
        for _ in range(self.count):
            freed += self.waiting.popleft().record.size_bytes
        self.next_sequence = (self.next_sequence + self.count) % _SEQUENCES
        self.under_way, self.batch_records, self.may_be_written = b"", None, False
        return freed

    def halve(self) -> bool:
        """Send half of the batch's records instead; return False if it has only one."""
        if self.count == 1:
            return False
        self.batch_records = self.count // 2
        self.under_way = b""
        return True

    def line(self, index: int = 0) -> int:
        """Return the line of a record of the batch."""
        return self.waiting[min(max(index, 0), self.count - 1)].record.line
