"""The import of one partition: its units that are planned, under way, and next to publish.  Pure.

    begin --> units [start, stop) in parallel --> done, in any order --> published in order

Units tile the offsets from the end of the copy to the source's end, as seen at the beginning.  The
first unit runs alone; it shows how many bytes one offset takes.  If a unit ends early, the offsets
that are left become another unit, with the same place in the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic

from .work import ANOTHERS, Ending, ImportUnit, UnitDone

UNIT_BYTES: Final = 64 << 20
FIRST_UNIT_BYTES: Final = 8 << 20
UNITS_AHEAD: Final = 8
"""So many units of a partition are at most under way or wait for an earlier one."""
TRIES: Final = 4
"""So often in a row a partition may fail."""


@dataclass(slots=True, eq=False)
class PartitionImport:
    """See the module's head.

    first, stop: the source's bounds at the beginning.  end: where the copy ends now.
    publish_at: the start of the next unit to publish.
    plan_at: the start of the next unit to plan.  rests: starts and stops of offsets that units
    left.  under_way, waiting: units by their start; waiting units are done, but an earlier unit is
    not. offset_bytes: about how many bytes an offset takes; 0: unknown.  published_bytes: so far.
    epoch_ends: where the last published batch of each leader epoch ends.
    is_at_end: the source gives no more, although its end may be above.  fails: failures in a row.
    problem: why it does not continue, for people; "" if it does.
    """

    topic: Topic
    index: int
    number: int
    first: int = 0
    stop: int = 0
    end: int = 0
    publish_at: int = 0
    plan_at: int = 0
    rests: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    under_way: dict[int, ImportUnit] = field(default_factory=dict[int, ImportUnit])
    waiting: dict[int, tuple[ImportUnit, UnitDone]] = field(
        default_factory=dict[int, tuple[ImportUnit, UnitDone]]
    )
    offset_bytes: float = 0.0
    published_bytes: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict[int, int])
    is_at_end: bool = False
    fails: int = 0
    problem: str = ""
    _epoch: int = -1
    _start: int = 0

    @property
    def name(self) -> str:
        """Return the partition's name for people."""
        return f"{self.topic.name}-{self.index}"

    def begin(self, partition: Partition, first: int, stop: int) -> None:
        """Plan again from where the copy ends; the source's bounds are [first, stop).

        The stop of the first call holds, so an import ends even if the source grows.  The state
        must be read to the end of the log.  Units that are under way are dropped.
        """
        self.first, self.stop = first, self.stop or stop
        self.end = partition.next_offset
        self._start = self.publish_at = self.plan_at = max(self.end, first)
        self._epoch = partition.leader_epoch if len(partition.runs) and self.end >= first else -1
        self.rests, self.under_way, self.waiting = [], {}, {}
        self.is_at_end = False

    # -- planning ----------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing more to do for it."""
        is_done = self.publish_at >= self.stop or self.is_at_end
        return bool(self.problem) or is_done

    @property
    def may_plan(self) -> bool:
        """Return whether next_unit() may be called."""
        if self.is_over or any(start == self.publish_at for start, _ in self.rests):
            return not self.is_over  # all other units wait for this one, which is published next
        ahead = len(self.under_way) + len(self.waiting)
        if ahead >= (UNITS_AHEAD if self.offset_bytes else 1):
            return False
        return bool(self.rests) or self.plan_at < self.stop

    @property
    def left_bytes(self) -> int:
        """Return about how many bytes are not published yet."""
        return 0 if self.is_over else int((self.stop - self.publish_at) * self.offset_bytes)

    def next_unit(self, number: int, counters: tuple[int, ...]) -> ImportUnit:
        """Return the next unit, which is under way from now on."""
        start, stop = self._next_range()
        is_first = start == self._start
        unit = ImportUnit(
            number,
            self.topic.topic_id,
            self.topic.shown_id,
            self.topic.name,
            self.index,
            start,
            stop,
            self.end if is_first else ANOTHERS,
            self._epoch if is_first else -1,
            2 * UNIT_BYTES if self.offset_bytes else FIRST_UNIT_BYTES,
            counters,
        )
        self.under_way[start] = unit
        return unit

    def _next_range(self) -> tuple[int, int]:
        """Return the lowest offsets that no unit covers, at most as many as fit in a unit."""
        if not self.rests:
            self.rests.append((self.plan_at, self.stop))
            self.plan_at = self.stop
        self.rests.sort()
        start, stop = self.rests.pop(0)
        if not self.offset_bytes:
            return start, stop
        end = min(stop, start + max(int(UNIT_BYTES / self.offset_bytes), 1))
        if end < stop:
            self.rests.append((end, stop))
        return start, end

    # -- results -----------------------------------------------------------------------------------

    def judged(self, unit: ImportUnit, done: UnitDone) -> UnitDone:
        """Return a result, or a failure if the source gave nothing well below its end.

        Brokers also answer without batches while tiered storage is slow.
        """
        if done.ending is not Ending.NO_MORE or unit.stop >= self.stop:
            return done
        text = (
            f"the source gives nothing from offset {done.next_offset} on, and ends at {self.stop}"
        )
        return UnitDone(done.number, Ending.FAILED, unit.start, text=text)

    def take(self, unit: ImportUnit, done: UnitDone) -> bool:
        """Take a result; return whether it counts, since the unit may be of an earlier plan."""
        if self.under_way.get(unit.start) is not unit:
            return False
        del self.under_way[unit.start]
        if done.ending is Ending.FAILED:
            self.rests.append((unit.start, unit.stop))
            return True
        self._learn(unit, done)
        self.waiting[unit.start] = unit, done
        if done.ending is Ending.EARLY:
            self.rests.append((done.next_offset, unit.stop))
        return True

    def _learn(self, unit: ImportUnit, done: UnitDone) -> None:
        offsets = done.next_offset - unit.start
        if done.read_bytes and offsets > 0:
            self.offset_bytes = done.read_bytes / offsets

    def publishable(self) -> Iterator[tuple[ImportUnit, UnitDone]]:
        """Yield units in the order of offsets; published() must be called between two."""
        while not self.is_over and self.publish_at in self.waiting:
            yield self.waiting[self.publish_at]

    def published(self, unit: ImportUnit, done: UnitDone) -> None:
        """Note that the batches of a unit are in the log."""
        if self.waiting.pop(unit.start, (None, done))[0] is not unit:
            return  # the partition was planned again meanwhile
        self.publish_at = min(done.next_offset, unit.stop)
        self.published_bytes += done.read_bytes
        for written in done.objects:
            self.epoch_ends |= {each.leader_epoch: each.next_offset for each in written.batches}
        self.is_at_end = done.ending is Ending.NO_MORE
        self.fails = 0

    def failed(self, text: str) -> None:
        """Note a failure; after TRIES failures without progress, the partition is given up."""
        self.fails += 1
        if self.fails >= TRIES:
            self.problem = text
