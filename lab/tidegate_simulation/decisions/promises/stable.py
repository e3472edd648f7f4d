"""The promises to readers of committed records: where they stop, and which batches they drop.

The model knows the accepted batches and ends of transactions, those of mirrored topics included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.state.records.aborted import Aborted
from tidegate_coordination.state.records.partitions import Partition

from ...invariants.transactions.partition_transactions import AbortedOne
from .moment import Moment, Place

_TRIED: Final = 4


@dataclass(slots=True)
class _Transactions:
    """open: first offsets, by producer id."""

    open: dict[int, int] = field(default_factory=dict[int, int])
    aborted: set[AbortedOne] = field(default_factory=set[AbortedOne])

    def stable_offset(self, partition: Partition) -> int:
        if not self.open:
            return partition.next_offset
        return max(partition.log_start, min(self.open.values()))


class StablePromises:
    """See the module's head."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._places: Final[defaultdict[Place, _Transactions]] = defaultdict(_Transactions)

    def wrote(self, place: Place, producer_id: int, offset: int) -> None:
        """Record a transactional batch."""
        self._places[place].open.setdefault(producer_id, offset)

    def ended(self, place: Place, producer_id: int, offset: int, *, committed: bool) -> None:
        """Record a marker."""
        own = self._places[place]
        first = own.open.pop(producer_id, None)
        if first is not None and not committed:
            own.aborted.add(AbortedOne(producer_id, first, offset))

    def left_out(self, place: Place, next_offset: int, *, is_emptied: bool) -> None:
        """Record that a source has removed markers, so all open transactions of a copy end.

        is_emptied: the source has removed all earlier records, too.
        """
        own = self._places[place]
        if not is_emptied:
            last = next_offset - 1
            for producer_id, first in own.open.items():
                own.aborted.add(AbortedOne(producer_id, first, last))
        own.open.clear()

    def deleted(self, topic_id: bytes) -> None:
        """Record that a topic is gone."""
        for place in [each for each in self._places if each[0] == topic_id]:
            del self._places[place]

    def check(self, partition: Partition) -> None:
        """Compare a partition."""
        place = (partition.topic_id, partition.index)
        own = self._places[place]
        opened = partition.open.as_dict() if partition.open is not None else {}
        if opened != own.open:
            self._moment.complain(f"{place} has open {opened}, and should have {own.open}")
        stable = own.stable_offset(partition)
        if partition.last_stable_offset != stable:
            text = f"{partition.last_stable_offset} instead of {stable}"
            self._moment.complain(f"{place} is stable up to {text}")
        aborted = partition.aborted if partition.aborted is not None else Aborted()
        named = {AbortedOne(*aborted[at][:3]) for at in range(len(aborted))}
        if strangers := named - own.aborted:
            self._moment.complain(f"{place} names {strangers} as aborted")
        # Below the first run that is in no segment, the indexes of segments name the transactions.
        rows = (each.base_offset for each in partition.rows() if not each.flags & RUN_SEGMENT)
        start = max(next(rows, partition.next_offset), partition.floor)
        if lacking := {each for each in own.aborted - named if each.last >= start}:
            self._moment.complain(f"{place} does not name {lacking} as aborted")
        for start, end in _spans(named):
            if partition.floor <= start < end <= stable:
                self._check_reader(place, aborted, start, end)

    def _check_reader(self, place: Place, aborted: Aborted, start: int, end: int) -> None:
        """Check that an answer names the aborted transactions that overlap its offsets."""
        expected = {
            (each.first, each.producer_id)
            for each in (aborted[at] for at in range(len(aborted)))
            if each.last >= start and each.first < end
        }
        found = aborted.named(start, end)
        if set(found) != expected:
            text = f"{found} instead of {expected}"
            self._moment.complain(f"a reader of {place} from {start} to {end} hears of {text}")


def _spans(rows: Iterable[AbortedOne]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets for trial readers, around the last transactions."""
    for each in sorted(rows, key=lambda each: each.last)[-_TRIED:]:
        yield each.first, each.last + 1
        yield each.first + 1, each.last
        yield each.last + 1, each.last + 2
