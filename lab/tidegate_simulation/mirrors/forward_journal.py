"""Batches that clients wrote to the source through gateways, at their acknowledged offsets.

It follows the batches across a switch: a batch that was at the source before must not be written
here again.  A batch that was written here goes to the source when its topic returns, once, at the
offset that it has here.

Values are never used twice, so a value names its batch.  Two facts are checked as they happen:

- A plain batch is sent once.  The batches of a client's connection to a partition arrive at the
  source in the order in which they were sent, each once, and none after one that did not arrive.
- The batches of an idempotent producer to a partition are appended once, and without a gap, unless
  the source itself refused the batch that is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidegate_protocol.records import decode_records, read_header

from ..classic.model_topics import ModelPartition, PartitionKey

_MAX_DECOMPRESSED_BYTES: Final = 1 << 20


class Line(NamedTuple):
    """The batches of one connection to one partition.  connection: its number at the client."""

    client: str
    connection: int
    key: PartitionKey


class _Writer(NamedTuple):
    producer_id: int
    epoch: int
    key: PartitionKey


def _no_complaint(kind: str, text: str) -> None:
    raise AssertionError(f"{kind}: {text}")


class ForwardJournal:
    """See the module's head.  complain: called with the kind and the text of a violation."""

    def __init__(self) -> None:
        self.complain: Callable[[str, str], None] = _no_complaint
        self._places: dict[int, tuple[PartitionKey, int]] = {}
        self._lines: dict[int, tuple[Line, int]] = {}
        self._sent: defaultdict[Line, int] = defaultdict(int)
        self._arrived: defaultdict[Line, int] = defaultdict(int)
        self._next: defaultdict[_Writer, int] = defaultdict(int)
        self._seen: defaultdict[_Writer, set[int]] = defaultdict(set)
        # By base offset of a batch that was committed here: whether the source has it, too.
        self._here: dict[tuple[PartitionKey, int], bool] = {}

    def will_send(self, line: Line, value: int) -> None:
        """Note the first value of a plain batch, which is sent next on a connection."""
        self._lines[value] = line, self._sent[line]
        self._sent[line] += 1

    def acknowledged(self, key: PartitionKey, values: Sequence[int], offset: int) -> None:
        """Check an answer without an error.  offset: -1 for a repeat of an old batch."""
        for place, value in enumerate(values):
            found = self._places.get(value)
            expected = (key, offset + place) if offset >= 0 else found
            if found is None or found != expected:
                text = f"{value} was acknowledged at {key}, {offset + place}; it is at {found}"
                self.complain("forward", text)

    # -- Observer ---------------------------------------------------------------------------------

    def arrived(self, key: PartitionKey, raw: bytes) -> None:
        """See Observer."""
        header = read_header(raw)
        if header.producer_id >= 0:
            writer = _Writer(header.producer_id, header.producer_epoch, key)
            self._seen[writer].add(header.base_sequence)
            return
        value = _values(raw)[0]
        if value not in self._lines or self._places.get(value) in self._here:
            return
        line, place = self._lines[value]
        expected = self._arrived[line]
        if place != expected:
            text = f"batch {place} of {line} arrives where {expected} was next"
            self.complain("forward", text)
        self._arrived[line] = place + 1

    def appended(self, partition: ModelPartition, raw: bytes, first_offset: int) -> None:
        """See Observer."""
        place = (partition.key, first_offset)
        if self._places.get(_values(raw)[0]) == place and place in self._here:
            if self._here[place]:
                self.complain("forward", f"{place} is written back twice")
            self._here[place] = True
        else:
            self._store(partition.key, raw, first_offset)

    def marked(self, partition: ModelPartition) -> None:
        """See Observer."""

    def was_here(self, key: PartitionKey, offset: int) -> bool:
        """Return whether the batch at an offset was committed here before it was at the source."""
        return (key, offset) in self._here

    def not_returned(self, key: PartitionKey) -> list[int]:
        """Return the offsets of batches that were committed here, and are not at the source."""
        return [
            offset
            for (where, offset), is_back in self._here.items()
            if where == key and not is_back
        ]

    def appended_here(self, key: PartitionKey, raw: bytes, first_offset: int) -> None:
        """Take a batch that was committed to a switched topic.

        A gateway may refuse a plain batch and take the next one, as a broker may.
        """
        header = read_header(raw)
        line, place = self._lines.get(_values(raw)[0], (None, 0))
        if header.producer_id < 0 and line is not None:
            if place < self._arrived[line]:
                self.complain("forward", f"batch {place} of {line} is committed late")
            self._arrived[line] = place + 1
        self._store(key, raw, first_offset)
        self._here[key, first_offset] = False

    def _store(self, key: PartitionKey, raw: bytes, first_offset: int) -> None:
        header = read_header(raw)
        for place, value in enumerate(_values(raw)):
            if value in self._places:
                self.complain("forward", f"{value} is at {self._places[value]} and again in {key}")
            self._places[value] = key, first_offset + place
        if header.producer_id >= 0:
            writer = _Writer(header.producer_id, header.producer_epoch, key)
            self._follow(writer, header.base_sequence, header.record_count)

    def _follow(self, writer: _Writer, sequence: int, count: int) -> None:
        expected = self._next[writer]
        if sequence != expected and expected not in self._seen[writer]:
            self.complain("forward", f"{writer}: {sequence} follows, and {expected} never arrived")
        self._next[writer] = sequence + count


def _values(raw: bytes) -> list[int]:
    records = decode_records(memoryview(raw), max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES)
    values = (each.value or b"" for each in records)
    return [int(each) if each.isdigit() else -1 for each in values]
