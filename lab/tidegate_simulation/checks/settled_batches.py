"""Which batches of a partition belong to no transaction that was aborted, or is still open.

They are found from the control batches alone (KIP-98), without the cluster state and the indexes of
segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

ATTRIBUTES_AT: Final = 5
_PRODUCER_AT: Final = 9
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_HEADER_BYTES: Final = 61
# In the record of a control batch: length, attributes, two deltas, length of the key, version.
_TYPE_AT: Final = _HEADER_BYTES + 8


class Fields(NamedTuple):
    """A batch: the fields of its header, and all of its bytes."""

    header: tuple[int, ...]
    data: bytes

    @property
    def is_control(self) -> bool:
        """Return whether it ends a transaction."""
        return bool(self.header[ATTRIBUTES_AT] & _CONTROL)


class Transaction(NamedTuple):
    """The batches of one producer up to a control batch; end: None while it is open."""

    batches: Sequence[Fields]
    end: Fields | None

    @property
    def is_committed(self) -> bool:
        """Return whether it ended with a commit."""
        return self.end is not None and self.end.data[_TYPE_AT] == 1


def transactions_in(batches: Iterable[Fields]) -> Iterator[Transaction]:
    """Yield the transactions of batches in their order: those that ended, then the open ones."""
    open_ones: dict[int, list[Fields]] = {}
    for each in batches:
        producer_id = each.header[_PRODUCER_AT]
        if each.is_control:
            yield Transaction(open_ones.pop(producer_id, []), each)
        elif each.header[ATTRIBUTES_AT] & _TRANSACTIONAL:
            open_ones.setdefault(producer_id, []).append(each)
    for left in open_ones.values():
        yield Transaction(left, None)


def settled(batches: Sequence[Fields], among: Sequence[Fields]) -> list[Fields]:
    """Return the batches with records for readers.  among: all batches of the partition."""
    hidden = {
        batch.header[0]
        for each in transactions_in(among)
        if not each.is_committed
        for batch in each.batches
    }
    return [each for each in batches if not each.is_control and each.header[0] not in hidden]
