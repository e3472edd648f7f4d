"""The observations of a library's clients, line by line.  No I/O here.

A client program prints a line for every answer, in their order (ms: the wall clock):

    A MS MECHANISM PARTITION OFFSET NUMBER         a record was acknowledged
    F MS MECHANISM PARTITION NUMBER ERROR          a record failed for good
    C MS MECHANISM PARTITION OFFSET:NUMBER ...     the group member got records
    E MS MECHANISM ERROR                           the application got an error
    W MS MECHANISM ERROR                           the library got one, and tries again by itself
    D MS MECHANISM                                 all records have an answer

Numbers of a producer rise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crash.ledger import Ledger, Verdict, judge

MAX_PROBLEMS = 20

Found = Mapping[int, Sequence[tuple[int, int]]]
"""By partition: (offset, number), in their order."""
Topics = Mapping[str, Found]
"""By topic."""


@dataclass(slots=True)
class PairLedger:
    """The lines that the clients of one mechanism printed.

    errors: the ones that an application got.  warnings: errors that the library handled.  read: the
    number of records that the group got.  again: records that it got more than once.
    """

    name: str
    producer: Ledger = field(default_factory=Ledger, init=False)
    errors: list[str] = field(default_factory=list, init=False)
    warnings: Counter[str] = field(default_factory=Counter, init=False)
    read: int = field(default=0, init=False)
    again: int = field(default=0, init=False)
    is_done: bool = field(default=False, init=False)
    problems: list[str] = field(default_factory=list, init=False)
    _next: dict[int, int] = field(default_factory=dict, init=False)
    _seen: dict[tuple[int, int], int] = field(default_factory=dict, init=False)

    @property
    def failed(self) -> int:
        """The number of requests of the application that failed for good."""
        return len(self.producer.failed) + len(self.errors)

    def behind(self, found: Found) -> int:
        """Return how many records the group has not got."""
        return sum(len(rows) - self._next.get(each, 0) for each, rows in found.items())

    def verdict(self, found: Found) -> Verdict:
        """Compare the acknowledgements with all records of the topic, in their order.

        Also compare the records that the group got; a difference there is recorded as a problem.
        """
        for partition, rows in found.items():
            for offset, number in rows:
                if self._seen.get((partition, offset), number) != number:
                    self.problem(f"partition {partition}: the group got another record at {offset}")
        return judge(self.producer, found)

    def problem(self, text: str) -> None:
        """Record a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{self.name}: {text}")

    def acknowledged(self, words: list[str]) -> None:
        """A."""
        partition, offset, number = map(int, words)
        self.producer.acknowledge(partition, offset, number)

    def failure(self, words: list[str]) -> None:
        """F."""
        self.producer.failed.append((int(words[1]), " ".join(words[2:])))

    def got(self, words: list[str]) -> None:
        """C."""
        partition = int(words[0])
        for word in words[1:]:
            offset, number = map(int, word.split(":"))
            expected = self._next.get(partition, 0)
            if offset > expected:
                self.problem(f"the group in partition {partition} went from {expected} to {offset}")
            if offset < expected:
                self.again += 1
                continue
            self._next[partition] = offset + 1
            self._seen[partition, offset] = number
            self.read += 1

    def error(self, words: list[str]) -> None:
        """E."""
        self.errors.append(" ".join(words))

    def warning(self, words: list[str]) -> None:
        """W."""
        self.warnings[" ".join(words)] += 1

    def done(self, _words: list[str]) -> None:
        """D."""
        self.is_done = True


class LibraryLedger:
    """The ledgers of all mechanisms of one library; takes the lines of its program."""

    def __init__(self, library: str, mechanisms: Iterable[str]) -> None:
        self.library = library
        self.pairs = {each: PairLedger(f"{library} {each}") for each in mechanisms}
        self.problems: list[str] = []

    def take(self, line: str) -> None:
        """Note one line."""
        kind, _ms, mechanism, *words = line.split()
        _TAKERS[kind](self.pairs[mechanism], words)

    def problem(self, text: str) -> None:
        """Record a problem of the program."""
        self.problems.append(f"{self.library}: {text}")


_TAKERS = {
    "A": PairLedger.acknowledged,
    "F": PairLedger.failure,
    "C": PairLedger.got,
    "E": PairLedger.error,
    "W": PairLedger.warning,
    "D": PairLedger.done,
}
