"""The promises of answers about transactional ids and their transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.state.transactions.open import OpenTransaction
from tidegate_coordination.state.transactions.rows import FENCING_EPOCH

from .moment import Moment, Place
from .offsets import OffsetKey
from .records import RecordPromises

_IDLE_MS: Final = 60_000


@dataclass(slots=True)
class _Id:
    """partitions: those of the open transaction, by topic id and index.  staged: its offsets, with
    the log time of each.  used_ms: when it last began, or ended.  has_committed: whether its last
    end was a commit.
    """

    producer_id: int
    epoch: int
    used_ms: int
    has_committed: bool
    is_open: bool = False
    partitions: set[Place] = field(default_factory=set[Place])
    staged: dict[OffsetKey, tuple[int, int]] = field(
        default_factory=dict[OffsetKey, tuple[int, int]]
    )


class TransactionPromises:
    """Epochs only rise, and a fenced epoch writes nothing more.

    An ended transaction leaves nothing open.  It leaves a marker in each of its partitions and, if
    it was committed, its offsets.
    """

    def __init__(
        self,
        moment: Moment,
        records: RecordPromises,
        committed: Callable[[OffsetKey, int, int], None],
    ) -> None:
        self._moment: Final = moment
        self._records: Final = records
        self._committed: Final = committed
        self._ids: Final[dict[str, _Id]] = {}
        self.foreign: Final[set[int]] = set()

    def initialised(self, name: str, producer_id: int, epoch: int) -> None:
        """Judge the answer to InitProducerId."""
        known = self._ids.get(name)
        if known is not None and known.producer_id == producer_id and epoch <= known.epoch:
            self._moment.complain(f"{name} gets epoch {epoch} after {known.epoch}")
        self._renew(name, producer_id, epoch, committed=False)

    def grown(self, name: str, producer_id: int, epoch: int, places: Iterable[Place]) -> None:
        """Judge a step of a transaction, or a batch of it, that was accepted."""
        known = self._ids.get(name)
        if known is None or (known.producer_id, known.epoch) != (producer_id, epoch):
            text = f"{name} has {known}, and ({producer_id}, {epoch}) goes on"
            self._moment.complain(text)
            return
        known.is_open = True
        known.partitions.update(places)

    def staged(self, name: str, key: OffsetKey, offset: int) -> None:
        """Record an offset of an open transaction."""
        known = self._ids.get(name)
        if known is not None:
            known.staged[key] = offset, self._moment.log_time_ms

    def unstage(self, is_gone: Callable[[OffsetKey], bool]) -> None:
        """Record that offsets are deleted, also those of open transactions."""
        for known in self._ids.values():
            for key in [each for each in known.staged if is_gone(each)]:
                del known.staged[key]

    def is_staged(self, key: OffsetKey) -> bool:
        """Return whether an open transaction has an offset."""
        return any(key in each.staged for each in self._ids.values())

    def ended(
        self, name: str, asked: tuple[int, int], answered: tuple[int, int], *, committed: bool
    ) -> None:
        """Judge an accepted end of a transaction.

        asked, answered: producer id and epoch.  A repeated end gets the answer of the first one,
        and ends nothing more.
        """
        known = self._ids.get(name)
        if known is None:
            self._moment.complain(f"{name} is unknown, and {asked} ends")
        elif (known.producer_id, known.epoch) == asked:
            self._renew(name, *answered, committed=committed)
        elif (known.producer_id, known.epoch) != answered:
            self._moment.complain(f"{name} has {known}, and {asked} ends with {answered}")
        elif committed and not known.has_committed:
            self._moment.complain(f"{name} learns that {asked} has committed, and it has not")

    def aborted(self, name: str, answered: tuple[int, int]) -> None:
        """Judge an abort that its producer did not ask for: the producer must be fenced."""
        known = self._ids.get(name)
        if known is None or not known.is_open:
            self._moment.complain(f"{name} is {known}, and was aborted")
            return
        if (known.producer_id, known.epoch) == answered:
            self._moment.complain(f"{name} was aborted, and keeps its epoch")
        self._renew(name, *answered, committed=False)

    def expired(self, names: Iterable[str], log_time_ms: int) -> None:
        """Judge the expiry of ids."""
        for name in names:
            known = self._ids.pop(name, None)
            if known is None or known.is_open or log_time_ms - known.used_ms <= _IDLE_MS:
                self._moment.complain(f"{name} expires at {log_time_ms}, and is {known}")

    def restored(self) -> None:
        """Record that all transactions are aborted, in the order of names; clients are fenced."""
        for _, known in sorted(self._ids.items()):
            for place in known.partitions if known.is_open else ():
                self._records.marked(place, known.producer_id, committed=False)
            known.is_open, known.epoch = False, FENCING_EPOCH
            known.partitions.clear()
            known.staged.clear()

    def deleted(self, topic_id: bytes) -> None:
        """Record that a topic is gone: transactions write no marker and no offset to it."""
        for known in self._ids.values():
            known.partitions = {each for each in known.partitions if each[0] != topic_id}
        self.unstage(lambda key: key[1] == topic_id)

    def _renew(self, name: str, producer_id: int, epoch: int, *, committed: bool) -> None:
        known = self._ids.get(name)
        if known is not None and known.is_open:
            for place in known.partitions:
                self._records.marked(place, known.producer_id, committed=committed)
            for key, (offset, at_ms) in known.staged.items() if committed else ():
                self._committed(key, offset, at_ms)
        self._ids[name] = _Id(producer_id, epoch, self._moment.log_time_ms, committed)

    def check(self) -> None:
        """Check that open offsets belong to transactions that are open, and that ids agree."""
        state = self._moment.truth
        may_be = {
            (place, each.producer_id) for each in self._ids.values() for place in each.partitions
        }
        for partition in state.partitions.values():
            place = (partition.topic_id, partition.index)
            opened = partition.open.as_dict() if partition.open is not None else {}
            for producer_id in opened.keys() - self.foreign:
                if (place, producer_id) not in may_be:
                    self._moment.complain(f"{producer_id} has ended, and is open in {place}")
        for name, known in self._ids.items():
            row = state.transactions.get(name)
            found = (row.producer_id, row.epoch, row.is_open) if row is not None else None
            if found != (known.producer_id, known.epoch, known.is_open):
                self._moment.complain(f"{name} is {row} and should be {known}")
            self._check_open(name, known)

    def _check_open(self, name: str, known: _Id) -> None:
        state = self._moment.truth
        found = state.transactions.open_of(name) or OpenTransaction()
        partitions = [state.partitions.get(each) for each in found.partitions.as_dict()]
        places = {(each.topic_id, each.index) for each in partitions if each is not None}
        if places != known.partitions or None in partitions:
            text = f"{partitions} instead of {known.partitions}"
            self._moment.complain(f"{name} has partitions {text}")
        staged = {(group_id, *key) for group_id, offsets in found.groups.items() for key in offsets}
        if staged != known.staged.keys():
            text = f"{staged} instead of {known.staged.keys()}"
            self._moment.complain(f"{name} has offsets {text}")
