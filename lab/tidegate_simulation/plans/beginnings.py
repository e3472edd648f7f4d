"""Runs in which all numbers begin high, and runs in which large requests have small parts.

A run has no time for 2^32 objects or for requests of thousands of rows.  So these settings replace
classes and constants of the product while the run lasts.  They are drawn apart from all other
faults.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tidegate_coordination.state.columns import MAX_UINT32
from tidegate_coordination.state.records import objects, partitions
from tidegate_coordination.state.records.object_rows import ObjectRows
from tidegate_gateway.network import turns
from tidegate_gateway.produce.wal_writer import WalWriter
from tidegate_gateway.requests.groups import offset_commit
from tidegate_gateway.requests.records import delete_records, fetch
from tidegate_gateway.requests.topics import delete_topics
from tidegate_gateway.topics import topic_creation

HIGH_SHARE: Final = 0.04
PARTS_SHARE: Final = 0.08
FIRST_OFFSET: Final = 1 << 62
_FIRST_OBJECT: Final = MAX_UINT32 - 8
_FIRST_COUNTER: Final = MAX_UINT32 - 2
# Module, constant, and its value in such runs.
_SMALL_PARTS: Final = (
    (delete_records, "PARTITIONS_PER_PROPOSAL", 1),
    (delete_topics, "TOPICS_PER_PROPOSAL", 1),
    (topic_creation, "PARTITIONS_PER_PROPOSAL", 1),
    (offset_commit, "OFFSETS_AT_ONCE", 1),
    (fetch, "LOOKED_AT_ONCE", 1),
    (turns, "ROWS_AT_ONCE", 2),
)


@dataclass(frozen=True, slots=True)
class Beginnings:
    """begins_high, has_small_parts: see the module's head."""

    begins_high: bool = False
    has_small_parts: bool = False

    @property
    def first_offset(self) -> int:
        """Return the first offset of every partition."""
        return FIRST_OFFSET if self.begins_high else 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Apply the replacements inside the context."""
        with ExitStack() as stack:
            if self.begins_high:
                _begin_high(stack)
            if self.has_small_parts:
                for module, name, value in _SMALL_PARTS:
                    stack.enter_context(patch.object(module, name, value))
            yield


def draw_beginnings(seed: int, *, may_begin_high: bool) -> Beginnings:
    """Draw the beginnings; may_begin_high: every part of the run supports high numbers."""
    rng = Random(f"{seed}/beginnings")
    begins_high, has_small_parts = rng.random() < HIGH_SHARE, rng.random() < PARTS_SHARE
    return Beginnings(begins_high and may_begin_high, has_small_parts)


def _begin_high(stack: ExitStack) -> None:
    """Begin objects and counters where 32 bits end, and offsets in the middle of 63 bits."""
    rows, partition = ObjectRows.__init__, partitions.Partition.__init__
    counted = objects.ObjectTable.next_counter
    writer, counters = WalWriter.__init__, objects.WalCounters.__init__

    def begin_rows(self: ObjectRows, codes: str) -> None:
        rows(self, codes)
        self.next_number = _FIRST_OBJECT

    def begin_partition(self: Any, *args: Any, **kwargs: Any) -> None:
        partition(self, *args, **kwargs)
        if len(args) == 3:  # a new partition; a snapshot's partitions have more arguments
            self.log_start = self.next_offset = FIRST_OFFSET

    def begin_writer(self: Any, *args: Any, **kwargs: Any) -> None:
        writer(self, *args, **kwargs)
        self._counter = _FIRST_COUNTER

    def next_counter(self: Any, incarnation: int) -> int:
        return counted(self, incarnation) or _FIRST_COUNTER

    def begin_counters(self: Any, following: int = _FIRST_COUNTER, *args: Any) -> None:
        counters(self, following, *args)

    for owner, name, replacement in (
        (ObjectRows, "__init__", begin_rows),
        (partitions.Partition, "__init__", begin_partition),
        (WalWriter, "__init__", begin_writer),
        (objects.WalCounters, "__init__", begin_counters),
        (objects.ObjectTable, "next_counter", next_counter),
    ):
        stack.enter_context(patch.object(owner, name, replacement))
