"""The observations of a family of clients, line by line, and their errors.  No I/O here.

A client program prints a line for every answer, in their order (ms: the wall clock):

    A MS PARTITION OFFSET NUMBER          a record of its producer was acknowledged; -1: somewhere
    F MS PARTITION NUMBER ERROR           a record failed for good
    J MS PARTITION,...                    its group member got partitions
    C MS PARTITION OFFSET:PRODUCER:NUMBER ...   its member got records
    T MS PARTITION:OFFSET,...             it sends a commit ...
    K MS PARTITION:OFFSET,...             ... which was acknowledged
    E MS ERROR                            its member got an error
    D MS                                  all records of its producer have an answer

Numbers of a producer rise; a partition's records are distinguished by (producer, number).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from crash.ledger import GroupProgress, Ledger, Verdict, judge

MAX_PROBLEMS = 20

# (offset, producer, number, the partition it was meant for), in the order of a partition.
Found = Mapping[int, Sequence[tuple[int, str, int, int]]]


@dataclass(slots=True)
class Told:
    """An error that a client reported."""

    at_ms: int
    error: str


class Progress(Protocol):
    """The progress of a family of clients.

    acknowledged_at, consumed_at: by partition or writer, the times of its acknowledgements and of
    its records, in ms, rising.
    """

    @property
    def name(self) -> str:
        """The family's name."""
        ...

    @property
    def acknowledged_at(self) -> Mapping[Any, Sequence[int]]:
        """See the class."""
        ...

    @property
    def consumed_at(self) -> Mapping[Any, Sequence[int]]:
        """See the class."""
        ...

    @property
    def told(self) -> Sequence[Told]:
        """The errors that its applications got."""
        ...


@dataclass(slots=True)
class FamilyLedger:
    """The lines that one family's clients printed.

    acknowledged_at, consumed_at: by partition, the times of its acknowledgements and of its
    records, in ms, rising.  is_idempotent: else its producer may write a record twice, or after a
    later record.  joins: how often its group member got partitions.
    """

    name: str
    is_idempotent: bool = True
    producer: Ledger = field(default_factory=Ledger, init=False)
    progress: dict[int, GroupProgress] = field(default_factory=dict, init=False)
    acknowledged_at: dict[int, list[int]] = field(
        default_factory=lambda: defaultdict(list), init=False
    )
    consumed_at: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list), init=False)
    told: list[Told] = field(default_factory=list, init=False)
    problems: list[str] = field(default_factory=list, init=False)
    consumed: int = field(default=0, init=False)
    commits: int = field(default=0, init=False)
    joins: int = field(default=0, init=False)
    is_done: bool = field(default=False, init=False)
    _positions: dict[int, int] = field(default_factory=dict, init=False)
    _floors: dict[int, int] = field(default_factory=dict, init=False)
    _seen: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict, init=False)

    def take(self, line: str) -> None:
        """Note one line."""
        kind, at, *words = line.split()
        _TAKERS[kind](self, int(at), words)

    def problem(self, text: str) -> None:
        """Record a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{self.name}: {text}")

    def compare_content(self, found: Found) -> None:
        """Check that each record the group got is the record at its offset in the log."""
        for partition, records in found.items():
            for offset, producer, number, _ in records:
                seen = self._seen.get((partition, offset), (producer, number))
                if seen != (producer, number):
                    self.problem(f"partition {partition}: at {offset} the group got {seen}")

    def behind(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return by partition how many records the group has not got; leave out zeros."""
        missing = {each: ends[each] - self._progress(each).next_offset for each in ends}
        return {partition: count for partition, count in missing.items() if count > 0}

    def _progress(self, partition: int) -> GroupProgress:
        return self.progress.setdefault(partition, GroupProgress())

    def _acknowledged(self, at_ms: int, words: list[str]) -> None:
        partition, offset, number = map(int, words)
        self.producer.acknowledge(partition, offset, number)
        self.acknowledged_at[partition].append(at_ms)

    def _failed(self, at_ms: int, words: list[str]) -> None:
        error = f"record {words[1]} of partition {words[0]} failed: {' '.join(words[2:])}"
        self.producer.failed.append((int(words[1]), error))
        self.told.append(Told(at_ms, error))

    def _joined(self, _at_ms: int, _words: list[str]) -> None:
        """Let each partition begin at the last acknowledged commit, or at a later one.

        The member asks for the committed offsets now, while a commit may be under way.
        """
        self.joins += 1
        self._positions.clear()
        self._floors = {partition: each.committed for partition, each in self.progress.items()}

    def _got(self, at_ms: int, words: list[str]) -> None:
        partition = int(words[0])
        for word in words[1:]:
            offset, producer, number = word.split(":")
            self._place(partition, int(offset), (producer, int(number)))
        self.consumed_at[partition].append(at_ms)

    def _place(self, partition: int, offset: int, record: tuple[str, int]) -> None:
        expected = self._positions.get(partition)
        progress = self._progress(partition)
        wrong = progress.delivered(offset, is_first_of_member=False)
        floor = self._floors.get(partition, 0)
        if expected is None and not floor <= offset <= progress.attempted:
            wrong = f"began at {offset}, committed {floor}..{progress.attempted}"
        if wrong is None and expected is not None and offset != expected:
            wrong = f"went from {expected} to {offset}"
        if wrong is not None:
            self.problem(f"the group in partition {partition} {wrong}")
        if self._seen.setdefault((partition, offset), record) != record:
            self.problem(f"partition {partition}: {offset} was another record before")
        self._positions[partition] = offset + 1
        self.consumed += 1

    def _committing(self, _at_ms: int, words: list[str]) -> None:
        for partition, offset in _offsets(words):
            here = self._progress(partition)
            here.attempted = max(here.attempted, offset)

    def _committed(self, _at_ms: int, words: list[str]) -> None:
        for partition, offset in _offsets(words):
            self._progress(partition).committed = offset
        self.commits += 1

    def _was_told(self, at_ms: int, words: list[str]) -> None:
        self.told.append(Told(at_ms, " ".join(words)))

    def _finished(self, _at_ms: int, _words: list[str]) -> None:
        self.is_done = True


_TAKERS: dict[str, Callable[[FamilyLedger, int, list[str]], None]] = {
    "A": FamilyLedger._acknowledged,
    "F": FamilyLedger._failed,
    "J": FamilyLedger._joined,
    "C": FamilyLedger._got,
    "T": FamilyLedger._committing,
    "K": FamilyLedger._committed,
    "E": FamilyLedger._was_told,
    "D": FamilyLedger._finished,
}


def _offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    pairs = [each.split(":") for each in words[0].split(",")] if words else []
    return [(int(partition), int(offset)) for partition, offset in pairs]


@dataclass(slots=True)
class Repeats:
    """Records that producers without idempotence wrote twice, or after a later record."""

    doubled: int = 0
    late: int = 0
    examples: list[str] = field(default_factory=list)


def judge_all(
    families: Sequence[FamilyLedger], found: Found, repeats: Repeats | None = None
) -> Verdict:
    """Compare the producers' acknowledgements with all records, read from start to end.

    repeats: gets the repeated and late records of producers without idempotence, which may write
        them.  The verdict leaves these records out.
    """
    total, repeated = Verdict(), repeats or Repeats()
    for family in families:
        ours = _of_producer(found, family.name)
        verdict = judge(_placed(family.producer, ours), ours)
        if not family.is_idempotent:
            _permit(verdict, repeated)
        _add(total, verdict, family.name)
    _judge_strangers(total, {each.name for each in families}, found)
    return total


def _permit(verdict: Verdict, repeats: Repeats) -> None:
    """Move the repeats out of the verdict."""
    repeats.doubled += verdict.duplicates
    repeats.late += verdict.out_of_order
    repeats.examples += verdict.examples
    verdict.duplicates = verdict.out_of_order = 0
    if verdict.is_clean:
        verdict.examples.clear()


def _of_producer(found: Found, name: str) -> dict[int, list[tuple[int, int]]]:
    return {
        partition: [(offset, number) for offset, producer, number, _ in records if producer == name]
        for partition, records in found.items()
    }


def _placed(told: Ledger, found: Mapping[int, Sequence[tuple[int, int]]]) -> Ledger:
    """Fill in the offsets -1, which come from answers DUPLICATE_SEQUENCE_NUMBER."""
    placed = Ledger()
    for partition, rows in told.acknowledged.items():
        at = {number: offset for offset, number in found.get(partition, ())}
        placed.acknowledged[partition] = [
            (at.get(number, -1) if offset < 0 else offset, number) for offset, number in rows
        ]
    return placed


def _add(total: Verdict, part: Verdict, name: str) -> None:
    total.lost += part.lost
    total.duplicates += part.duplicates
    total.misplaced += part.misplaced
    total.out_of_order += part.out_of_order
    for each in part.examples:
        total.example(f"{name}: {each}")


def _judge_strangers(total: Verdict, names: set[str], found: Found) -> None:
    """Check that each record has a known producer, and is in the partition that it was sent to."""
    for partition, records in found.items():
        for offset, name, number, meant in records:
            if meant != partition or name not in names:
                total.misplaced += 1
                total.example(f"{name}: {number} for {meant} is in {partition} at {offset}")
