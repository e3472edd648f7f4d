"""Mirrored batches in the log: each has the bytes of the source's batch, and none is left out.

A run may leave out offsets for which the source has no batch: it never had one, or has compacted or
deleted the batch.  So `left_out` is compared with the source's batches of that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import links as kev
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_protocol.batches import walk

_LENGTH: Final = Struct(">qi")
_LAST_DELTA: Final = Struct(">i")
_LAST_DELTA_AT: Final = 23
_OVERHEAD: Final = 12


class Held(Protocol):
    """The batches that the source of the link holds, and ever held."""

    def ever_held(self, topic_id: bytes, index: int, offset: int, raw: bytes) -> bool:
        """Return whether the partition ever held this batch at the offset."""
        ...

    def appended_here(self, topic_id: bytes, index: int, raw: bytes, offset: int) -> None:
        """Take a batch that was committed to a switched topic."""
        ...

    def not_returned(self, topic_id: bytes, index: int) -> list[int]:
        """Return the offsets of batches that were committed here, and are not at the source."""
        ...

    def batches_between(self, topic_id: bytes, index: int, start: int, end: int) -> list[int]:
        """Return the offsets of the partition's present batches within [start, end)."""
        ...


class MirrorWatch:
    """See the module's head.

    complain: called with the kind and the text of a violation.  source: None without a link.
    """

    def __init__(
        self,
        state: ClusterState,
        complain: Callable[[str, str], None],
        body_of: Callable[[str], bytes | None],
    ) -> None:
        self._state: Final = state
        self._complain: Final = complain
        self._body_of: Final = body_of
        self._next: Final[dict[int, int]] = {}
        self.source: Held | None = None

    def before(self, event: ev.Event) -> None:
        """Take an event before the fold of its entry."""
        match event:
            case ev.WalCommitted():
                self._committed(event)
            case kev.MirrorsPlaced():
                for place in event.places:
                    self._placed(place)
            case kev.TopicsReturned():
                self._returned(event)
            case _:
                pass

    def after(self) -> None:
        """Forget the earlier events of the entry."""
        self._next.clear()

    def _committed(self, event: ev.WalCommitted) -> None:
        body: bytes | None = None
        for run in event.runs:
            is_mirrored = self._is_mirrored(run.partition)
            if is_mirrored != bool(run.flags & ev.RUN_FINAL):
                self._complain("mirror", f"{run}: only mirrors write to mirrored partitions")
            if not is_mirrored and not self._is_switched(run.partition):
                continue
            if body is None:
                name = WalName(event.incarnation, event.counter)
                body = self._body_of(object_key(self._state, name)) or b""
            if is_mirrored:
                self._run(run, body)
            else:
                self._own_run(run, body)

    def _is_mirrored(self, number: int) -> bool:
        partition = self._state.partitions.get(number)
        return partition is not None and bool(self._state.topics.get(partition.topic_id).link)

    def _is_switched(self, number: int) -> bool:
        partition = self._state.partitions.get(number)
        return partition is not None and partition.topic_id in self._state.switches.switched

    def _own_run(self, run: ev.Run, body: bytes) -> None:
        if self.source is None:
            return
        partition = self._state.partitions[run.partition]
        offset = run.base_offset
        for at, header in walk(memoryview(body)[run.position : run.position + run.length]):
            start = run.position + at
            raw = body[start : start + header.size_bytes]
            self.source.appended_here(partition.topic_id, partition.index, raw, offset)
            offset += header.record_count

    def _run(self, run: ev.Run, body: bytes) -> None:
        partition = self._state.partitions[run.partition]
        at, end = run.position, run.position + run.length
        offset = run.base_offset
        while at < end:
            base, length = _LENGTH.unpack_from(body, at)
            raw = body[at : at + _OVERHEAD + length]
            (last_delta,) = _LAST_DELTA.unpack_from(raw, _LAST_DELTA_AT)
            self._left_out(partition.topic_id, partition.index, offset, base)
            if self.source is None or not self.source.ever_held(
                partition.topic_id, partition.index, base, raw
            ):
                where = f"partition {partition.number}: offset {base}"
                self._complain("mirror", f"{where} is not what the source held")
            offset = base + last_delta + 1
            at += len(raw)
        if offset != run.base_offset + run.record_count:
            self._complain("mirror", f"{run} ends at {offset}")
        self._next[run.partition] = offset

    def _returned(self, event: kev.TopicsReturned) -> None:
        """Check that the source has all batches that were committed here since the switch."""
        fence = self._state.switches.fences.get(event.fence)
        if self.source is None or fence is None:
            return
        for topic_id in fence.limits:
            for index, _ in enumerate(self._state.topics.get(topic_id).partition_numbers):
                missing = self.source.not_returned(topic_id, index)
                if missing:
                    text = f"{topic_id.hex()}-{index} returns without the batches at {missing}"
                    self._complain("not returned", text)

    def _placed(self, place: kev.MirrorPlace) -> None:
        partition = self._state.partitions[place.partition]
        before = self._next.get(place.partition, partition.next_offset)
        if place.log_start < place.next_offset:
            self._left_out(partition.topic_id, partition.index, before, place.next_offset)

    def _left_out(self, topic_id: bytes, index: int, start: int, end: int) -> None:
        """Check that the source has no batch within [start, end)."""
        if self.source is None or start >= end:
            return
        missed = self.source.batches_between(topic_id, index, start, end)
        if missed:
            text = f"{start} to {end} is left out, and the source holds {missed}"
            self._complain("mirror", f"{topic_id.hex()}-{index}: {text}")
