"""The cluster state: the fold of the metadata log.

`apply` is the only way to change the state, live and in a replay.  The fold decides nothing.  An
event that contradicts the state raises StateBroken and stops the gateway.

Log time only rises, and never runs ahead of the median of the live gateways' last clocks.  An entry
advances it by no more than the time that passed on its writer's clock.  So one wrong clock expires
nothing, even if its gateway is the only one left (decision 3).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from ..events.entries import Entry
from ..events.metadata_versions import FIRST, NEWEST, entry_formats
from .broken import StateBroken, expect
from .changes import EVERY_ENTRY, Tables
from .event_rows import ROWS
from .folds.cluster import MAX_LEAP_MS, go_to_version
from .folds.parts import FoldParts
from .frozen import FrozenState, split
from .long_values import LongValue
from .snapshot_head import decode_head, encode_head, is_wide
from .tables import StateTables

_Fold = Callable[[Any], None]
# The errors of an event with an unknown number, or with one that does not fit its column.
_NOT_THERE = (LookupError, OverflowError, struct.error)


class ClusterState(StateTables):
    """See the module's head, and StateTables for what it holds."""

    def __init__(self, highest_version: int = NEWEST) -> None:
        super().__init__(highest_version)
        self._asked: tuple[int, ...] = ()
        self._answered_ms = 0
        self._parts: Final = FoldParts(self)
        self._folds: Final[dict[type, tuple[_Fold, Tables]]] = {
            row.kind: (row.fold(self._parts), row.tables) for row in ROWS
        }

    def log_time_after(self, writer: int, clock_ms: int) -> int:
        """Return the log time after an entry with this writer and clock.

        A gateway calls this while it drafts its entry, and again when it folds the entry.
        """
        asked = (self.position, self.log_time_ms, writer, clock_ms)
        if asked == self._asked:
            return self._answered_ms
        gateway = self.gateways.live.get(writer)
        if gateway is None:
            return self.log_time_ms
        passed_ms = min(max(clock_ms - gateway.clock_ms, 0), MAX_LEAP_MS)
        median_ms = self.gateways.median_clock_ms(writer, clock_ms)
        self._asked = asked
        self._answered_ms = max(self.log_time_ms, min(median_ms, self.log_time_ms + passed_ms))
        return self._answered_ms

    def apply(self, position: int, entry: Entry) -> None:
        """Fold one entry.

        Raises:
          StateBroken: naming the position and the event.
          ReleaseTooOld: this release cannot read the next entries.
        """
        if position != self.position + 1:
            raise StateBroken(_out_of_order(position, self.position))
        try:
            self.log_time_ms = self.log_time_after(entry.writer, entry.clock_ms)
            self.gateways.fold_clock(entry.writer, entry.clock_ms, entry.uptime_ms)
            folds = self._parts.cluster
            folds.author = entry.writer
            folds.writer_clock_ms = entry.clock_ms
            folds.writer_uptime_ms = entry.uptime_ms
            self.changed |= EVERY_ENTRY
            for event in entry.events:
                fold, changed = self._folds[type(event)]
                fold(event)
                self.changed |= changed
        except StateBroken as error:
            raise StateBroken(f"metadata log entry {position}: {error}") from error
        except _NOT_THERE as error:
            raise StateBroken(f"metadata log entry {position}: {error!r}") from error
        self.position = position

    @property
    def entry_formats(self) -> range:
        """Return the formats that the next entry may have."""
        return entry_formats(self.metadata_version, self.highest_version)

    @contextmanager
    def frozen(self, *, as_copy: bool = False) -> Generator[FrozenState]:
        """Return the present state, to be encoded in pieces while the live state changes.

        as_copy: the state is for a log that is being copied from this one.
        """
        with self.topics.frozen() as topics:
            frozen = self._frozen(encode_head(self, topics, as_copy=as_copy))
            self.frozen_states.append(frozen)
            try:
                yield frozen
            finally:
                self.frozen_states.remove(frozen)

    def _frozen(self, head: LongValue) -> FrozenState:
        partitions = self.partitions.frozen(is_wide=is_wide(self))
        return FrozenState(
            self.position,
            head,
            partitions,
            self.groups.frozen(),
            self.transactions.frozen(),
            self.acls.frozen(),
            *self.scram.frozen(),
            self.quotas.frozen(),
            self.tokens.frozen(),
            self.offsets_topic.frozen(),
        )

    def encode(self) -> bytes:
        """Return the whole state; equal states give equal bytes."""
        with self.frozen() as frozen:
            return b"".join(frozen.pieces())

    @classmethod
    def decode(cls, data: bytes, highest_version: int = NEWEST) -> ClusterState:
        """Return the state from the bytes of encode().

        Raises:
          StateBroken: the snapshot is damaged, or has a format that this release no longer reads.
          ReleaseTooOld: a newer release wrote it, or the cluster's metadata.version is too high
            for this release.
        """
        state = cls(highest_version)
        pieces = split(data)
        expect(bool(data), "a snapshot that is empty")
        head = next(pieces)
        # Check the version first: a newer release's snapshot must not be reported as damage.
        go_to_version(state, head.get("metadata_version", FIRST))
        decode_head(state, head)
        state.name_changes.begin_at(state.position)
        state.acls.changed_at = state.position
        tombstones: list[Any] = []
        tables: dict[str, Callable[[list[Any]], None]] = {
            "partitions": state.partitions.decode,
            "groups": state.groups.decode,
            "transactions": state.transactions.decode,
            "acls": state.acls.decode,
            "scram": state.scram.decode,
            "scram_sealed": state.scram.decode_sealed,
            "quotas": state.quotas.decode,
            "tokens": state.tokens.decode,
            "offsets_tombstones": tombstones.extend,
        }
        for name, rows in pieces:
            expect(name in tables, f"a snapshot with a table {name}")
            tables[name](rows)
        state.offsets_topic.decode(state.metadata_version, tombstones)
        return state


def _out_of_order(position: int, last: int) -> str:
    return (
        f"the log gave entry {position} after {last}, out of order, so it cannot be used: check it"
        " with `tidegate log verify URL`, on an empty one of its kind, or restore the log with"
        " `tidegate log restore`"
    )
