"""Objects that the store loses for good, and the runs that a repair may declare lost.

A live run is hurt if its object no longer holds its committed bytes.  An entry that skips a run
which is not hurt is a bug.  It is also a bug if a client misses records of a run that no entry
skipped.  Kinds:

    lost_object     an object with live runs is missing
    spoilt_object   a bit of one of its live runs is wrong, for every reader
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.segment_format import HEADER_BYTES

from ..checks.segment_checks import is_readable

LOSS_KINDS = ("lost_object", "spoilt_object")
# Of each kind.
MAX_LOSSES = 2
_SHARE = 0.2
_RETURNS_SHARE = 0.5
# Before this position lie fields of a batch's header that each read overwrites.
_COVERED_FROM = 21


@dataclass(frozen=True, slots=True)
class LossPlan:
    """kinds: the losses of a run.  operators: the number of independent operators who repair it.
    returns: whether they find the lost objects later, and bring the skipped ranges back.
    """

    kinds: tuple[str, ...] = ()
    operators: int = 0
    returns: bool = False


def draw_losses(rng: Random, *, is_calm: bool) -> LossPlan:
    """Draw the losses of a run; most runs have none."""
    kinds = tuple(each for each in LOSS_KINDS if rng.random() < 0.6)
    if is_calm or rng.random() >= _SHARE or not kinds:
        return LossPlan()
    return LossPlan(kinds, rng.choice((1, 2)), rng.random() < _RETURNS_SHARE)


class LossyStore(Protocol):
    """A store that can lose its objects; see world.py."""

    def peek(self, key: str) -> bytes | None:
        """Return the body of an object."""
        ...

    def replace(self, key: str, body: bytes | None) -> None:
        """Replace the body of an object, or delete it; no gateway gets an event."""
        ...

    def put_back(self, key: str, body: bytes) -> None:
        """Undo replace()."""
        ...


class Hurt:
    """Records which objects were lost.

    is_known: whether clients know a partition, by topic id and index, so that their histories can
    name it.
    """

    def __init__(self, store: LossyStore, state_of: Callable[[], ClusterState]) -> None:
        self._store = store
        self._state_of = state_of
        self.is_known: Callable[[bytes, int], bool] = lambda topic_id, partition: False
        self.originals: dict[str, bytes] = {}
        self.partitions: set[tuple[bytes, int]] = set()
        self._strikes: Counter[str] = Counter()

    def was(self, key: str) -> bytes | None:
        """Return the body of an object, or its body before the loss."""
        return self.originals.get(key) or self._store.peek(key)

    def strike(self, kind: str, rng: Random) -> bool:
        """Lose an object, or damage it; return False if there is no candidate."""
        objects = self._candidates()
        if not objects or self._strikes[kind] >= MAX_LOSSES:
            return False
        self._strikes[kind] += 1
        key = rng.choice(sorted(objects))
        body = self._store.peek(key)
        assert body is not None
        _, row = rng.choice(objects[key])
        spoilt: bytes | None = None
        if kind == "spoilt_object":
            spoilt = _with_wrong_bit(body, _place(row, rng))
        self.originals[key] = body
        self.partitions |= {(each.topic_id, each.index) for each, _ in objects[key]}
        self._store.replace(key, spoilt)
        return True

    def put_back(self, row: RunRow) -> None:
        """Undo the loss of the object of a kept run, unless the cluster no longer needs it."""
        state = self._state_of()
        name = state.objects.name_or_none(row.object_number)
        if name is None or row.object_number in state.objects.dead:
            return
        key = object_key(state, name)
        if key in self.originals:
            self._store.put_back(key, self.originals[key])

    def _candidates(self) -> dict[str, list[tuple[Partition, RunRow]]]:
        """Return whole objects by key, with their live runs."""
        state = self._state_of()
        objects: dict[str, list[tuple[Partition, RunRow]]] = {}
        for partition, row in _live_runs(state):
            key = object_key(state, state.objects.name(row.object_number))
            if key not in self.originals and self._store.peek(key) is not None:
                objects.setdefault(key, []).append((partition, row))
        return {
            key: runs
            for key, runs in objects.items()
            if all(self.is_known(each.topic_id, each.index) for each, _ in runs)
        }

    def is_hurt(self, partition: Partition, row: RunRow) -> bool:
        """Return whether a live run can no longer be read."""
        if row.is_marker:
            return False
        state = self._state_of()
        key = object_key(state, state.objects.name(row.object_number))
        return key in self.originals and not is_readable(state, partition, row, self._store.peek)

    @property
    def is_left(self) -> bool:
        """Return whether a live run is hurt."""
        if not self.originals:
            return False
        return any(self.is_hurt(*each) for each in _live_runs(self._state_of()))


def _live_runs(state: ClusterState) -> Iterator[tuple[Partition, RunRow]]:
    for partition in state.partitions.values():
        for at in range(len(partition.runs)):
            if not partition.runs[at].is_marker:
                yield partition, partition.runs[at]


def _place(row: RunRow, rng: Random) -> int:
    """Return the position of a byte of a run that a CRC covers."""
    if row.flags & RUN_SEGMENT:
        return rng.randrange(HEADER_BYTES, HEADER_BYTES + row.length)
    return row.position + rng.randrange(_COVERED_FROM, 61)


def _with_wrong_bit(body: bytes, at: int) -> bytes:
    return body[:at] + bytes((body[at] ^ 1,)) + body[at + 1 :]


class Holes:
    """Ranges of offsets that were declared lost, by partition number."""

    def __init__(self) -> None:
        self._stretches: dict[int, list[tuple[int, int]]] = {}

    def add(self, number: int, base_offset: int, next_offset: int) -> None:
        """Add a range."""
        stretches = self._stretches.setdefault(number, [])
        stretches.append((base_offset, next_offset))
        stretches.sort()

    def remove(self, number: int, base_offset: int, next_offset: int) -> None:
        """Remove a range that was added."""
        self._stretches[number].remove((base_offset, next_offset))

    def cover(self, number: int, start: int, end: int) -> bool:
        """Return whether all offsets from start on, below end, were declared lost."""
        at = start
        for base_offset, next_offset in self._stretches.get(number, []):
            if base_offset <= at:
                at = max(at, next_offset)
        return at >= end
