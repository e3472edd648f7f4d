"""The answers that clients got, and whether they are true.  No I/O here.

The producer notes every acknowledgement, and the group consumer every record and commit.  At the
end `judge` compares the acknowledgements with all records of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_EXAMPLES = 5


@dataclass(slots=True)
class Ledger:
    """All acknowledgements of a run, kept per partition.

    acknowledged: partition -> (offset, number), number being the record's value.
    failed: numbers whose delivery failed for good; their records may be in the log or not.
    """

    acknowledged: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    failed: list[tuple[int, str]] = field(default_factory=list)

    def acknowledge(self, partition: int, offset: int, number: int) -> None:
        """Note that the broker acknowledged the record at this offset."""
        self.acknowledged.setdefault(partition, []).append((offset, number))

    @property
    def count(self) -> int:
        """How many records were acknowledged."""
        return sum(map(len, self.acknowledged.values()))


@dataclass(slots=True)
class GroupProgress:
    """Follows one partition of a group.

    next_offset: the first offset never delivered.  A new member must start between `committed`,
    the last commit that was acknowledged, and `attempted`, the last one sent.
    """

    next_offset: int = 0
    committed: int = 0
    attempted: int = 0

    def delivered(self, offset: int, *, is_first_of_member: bool) -> str | None:
        """Record a record's offset; return what is wrong about the offset, or None."""
        problem = None
        if offset > self.next_offset:
            problem = f"skipped from {self.next_offset} to {offset}"
        elif is_first_of_member and not self.committed <= offset <= self.attempted:
            problem = f"began at {offset}, committed {self.committed}..{self.attempted}"
        self.next_offset = max(self.next_offset, offset + 1)
        return problem


@dataclass(slots=True)
class Verdict:
    """The findings; `examples` hold the first few of each kind."""

    lost: int = 0
    duplicates: int = 0
    misplaced: int = 0
    out_of_order: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.duplicates or self.misplaced or self.out_of_order)

    def example(self, text: str) -> None:
        """Keep an example."""
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(text)


def judge(ledger: Ledger, found: Mapping[int, Sequence[tuple[int, int]]]) -> Verdict:
    """Compare the acknowledgements with what was read: partition -> (offset, number) in order."""
    verdict = Verdict()
    for partition in sorted(set(found) | set(ledger.acknowledged)):
        records = found.get(partition, ())
        _judge_order(verdict, partition, records)
        _judge_places(verdict, partition, records, ledger.acknowledged.get(partition, ()))
    return verdict


def _judge_order(verdict: Verdict, partition: int, records: Sequence[tuple[int, int]]) -> None:
    """A producer's numbers rise within a partition, and none comes twice."""
    seen: set[int] = set()
    highest = -1
    for offset, number in records:
        if number in seen:
            verdict.duplicates += 1
            verdict.example(f"partition {partition}: {number} again at offset {offset}")
        elif number < highest:
            verdict.out_of_order += 1
            verdict.example(f"partition {partition}: {number} after {highest} at offset {offset}")
        seen.add(number)
        highest = max(highest, number)


def _judge_places(
    verdict: Verdict,
    partition: int,
    records: Sequence[tuple[int, int]],
    acknowledged: Sequence[tuple[int, int]],
) -> None:
    """Every acknowledged record is there, at its acknowledged offset."""
    at_offset = dict(records)
    numbers = set(at_offset.values())
    for offset, number in acknowledged:
        if number not in numbers:
            verdict.lost += 1
            verdict.example(f"partition {partition}: {number}, told offset {offset}, is lost")
        elif at_offset.get(offset) != number:
            verdict.misplaced += 1
            verdict.example(f"partition {partition}: {number} is not at offset {offset}")
