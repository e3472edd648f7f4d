"""An open transaction: its partitions, and the offsets that it will commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from ...events.groups import CommittedOffset
from .int_map import IntMap

OffsetKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

NOTHING_WRITTEN: Final = -1


@dataclass(slots=True)
class StagedOffset:
    """order: rises with each OffsetsStaged.

    is_overtaken: a later offset of the partition was committed, by a plain commit or by another
    transaction.  That offset holds, even if this transaction commits.
    """

    offset: CommittedOffset
    order: int
    is_overtaken: bool = False


StagedOffsets: TypeAlias = dict[OffsetKey, StagedOffset]


@dataclass(slots=True)
class OpenTransaction:
    """partitions: first offset by partition number, or NOTHING_WRITTEN: only added.

    groups: staged offsets by group id; also groups that were only added.
    """

    partitions: IntMap = field(default_factory=IntMap)
    groups: dict[str, StagedOffsets] = field(default_factory=dict[str, StagedOffsets])

    def is_in(self, number: int) -> bool:
        """Return whether a partition was added or written."""
        return number in self.partitions

    def to_commit(self) -> Iterator[tuple[str, list[StagedOffset]]]:
        """Yield the staged offsets by group, except the overtaken ones."""
        for group_id, staged in self.groups.items():
            offsets = [each for each in staged.values() if not each.is_overtaken]
            if offsets:
                yield group_id, offsets

    def encode(self) -> object:
        """Return the transaction as builtins."""
        return [
            list(self.partitions.as_dict().items()),
            [
                [group_id, [_staged_row(each) for each in staged.values()]]
                for group_id, staged in self.groups.items()
            ],
        ]

    @classmethod
    def decode(cls, row: list[Any]) -> OpenTransaction:
        """Return the transaction that encode() encoded."""
        partitions, groups = row
        decoded = cls(IntMap((number, offset) for number, offset in partitions))
        for group_id, rows in groups:
            staged = decoded.groups[group_id] = {}
            for fields, order, is_overtaken in rows:
                offset = CommittedOffset(*fields)
                key = (offset.topic_id, offset.partition)
                staged[key] = StagedOffset(offset, order, is_overtaken)
        return decoded


def _staged_row(each: StagedOffset) -> list[object]:
    return [list(msgspec.structs.astuple(each.offset)), each.order, each.is_overtaken]
