"""The acts and answers of a family of transactional clients, line by line.  No I/O here.

A client program prints a line for each event, in their order (MS: the wall clock):

    B MS TXN                          it begins a transaction
    T MS TXN commit|abort COUNT       it asks for the end of a transaction of COUNT values ...
    K MS TXN commit|abort PLACE:OFFSET,...   ... which was acknowledged; where each value lies
    U MS TXN ERROR                    the end of a transaction stays unknown
    P MS READER LEVEL PLACE:OFFSET,...   a reader begins a pass; LEVEL: c (committed) or u
    R MS READER PLACE OFFSET=VALUE ...   its pass got records
    L MS SENT PLACE:OFFSET,...        last stable offsets, asked for at SENT
    E MS ACTOR ERROR                  an error that an application got
    D MS ACTOR                        a writer ended in order

TXN: WRITER-LIFE.NUMBER.  VALUE: TXN:INDEX:COUNT, or TXN:INDEX:COUNT:ORDER:AMOUNT of a transfer.
PLACE: the first letter of a topic, and a partition.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from faults.ledger import Told

COMMITTED: Final = "c"
MAX_PROBLEMS: Final = 20


@dataclass(slots=True)
class Transaction:
    """A transaction.

    count: the number of its values, once its end was asked for.  begun_ms: when it began.
    asked_ms: when its commit was first asked for.  ended_ms: when its end was acknowledged;
    `committed` says which end.  Times are -1 before that.  places: PLACE:OFFSET of each value, ""
    if the client does not know.
    """

    begun_ms: int = -1
    count: int = 0
    asked_ms: int = -1
    ended_ms: int = -1
    committed: bool = False
    is_unknown: bool = False
    places: Sequence[str] = ()


@dataclass(slots=True)
class Pass:
    """The offsets of a place that a reader got, from `begin` on, and the times (ms).

    is_tail: the reader follows the end for the whole run.
    """

    reader: str
    place: str
    level: str
    begin: int
    begun_ms: int
    is_tail: bool
    offsets: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True)
class Stable:
    """A last stable offset, asked for and answered at these times."""

    sent_ms: int
    received_ms: int
    offset: int


class Records:
    """The value at each offset of each place, as the first reader got it.

    All families share this object.  conflicts: places where later readers got another value.
    """

    def __init__(self) -> None:
        self.at: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self.conflicts: list[str] = []

    def note(self, place: str, offset: int, value: str) -> None:
        """Note that a reader got a value."""
        first = self.at[place].setdefault(offset, value)
        if first != value and len(self.conflicts) < MAX_PROBLEMS:
            self.conflicts.append(f"{place} {offset}: {first}, then {value}")


def transaction_of(value: str) -> str:
    """Return the name of the transaction that wrote a value."""
    return value.partition(":")[0]


def writer_of(transaction: str) -> str:
    """Return the writer of a transaction."""
    return transaction.rpartition("-")[0]


class History:
    """The lines of one family.

    acknowledged_at: by writer, when it committed.  consumed_at: by place, when the tail of
    committed records got some.  In ms, rising.
    """

    def __init__(self, name: str, records: Records) -> None:
        self.name = name
        self.records = records
        self.transactions: dict[str, Transaction] = {}
        self.passes: list[Pass] = []
        self.stable: defaultdict[str, list[Stable]] = defaultdict(list)
        self.first_seen_ms: dict[str, int] = {}
        self.acknowledged_at: defaultdict[str, list[int]] = defaultdict(list)
        self.consumed_at: defaultdict[str, list[int]] = defaultdict(list)
        self.told: list[Told] = []
        self.problems: list[str] = []
        self.ended: set[str] = set()
        self.read = 0
        self._open: dict[tuple[str, str], Pass] = {}

    def take(self, line: str) -> None:
        """Note one line."""
        kind, at, *words = line.split()
        _TAKERS[kind](self, int(at), words)

    def problem(self, text: str) -> None:
        """Record a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{self.name}: {text}")

    def tail_end(self, place: str) -> int:
        """Return the offset after the last one that the present tail of committed records got."""
        tail = self._open.get((f"{self.name}-tail-{COMMITTED}", place))
        if tail is None:
            return -1
        return tail.offsets[-1] + 1 if tail.offsets else tail.begin

    def _of(self, name: str) -> Transaction:
        return self.transactions.setdefault(name, Transaction())

    def _began(self, at_ms: int, words: list[str]) -> None:
        self._of(words[0]).begun_ms = at_ms

    def _asks(self, at_ms: int, words: list[str]) -> None:
        transaction = self._of(words[0])
        transaction.count = int(words[2])
        if words[1] == "commit" and transaction.asked_ms < 0:
            transaction.asked_ms = at_ms

    def _ended(self, at_ms: int, words: list[str]) -> None:
        transaction = self._of(words[0])
        transaction.ended_ms = at_ms
        transaction.committed = words[1] == "commit"
        transaction.places = words[2].split(",") if words[2:] else ()
        if transaction.committed:
            self.acknowledged_at[writer_of(words[0])].append(at_ms)

    def _unknown(self, at_ms: int, words: list[str]) -> None:
        self._of(words[0]).is_unknown = True
        self.told.append(Told(at_ms, f"unknown end: {' '.join(words[1:])}"))

    def _begins(self, at_ms: int, words: list[str]) -> None:
        reader, level, begins = words
        for each in begins.split(","):
            place, offset = each.split(":")
            begun = Pass(reader, place, level, int(offset), at_ms, "-tail-" in reader)
            self._open[reader, place] = begun
            self.passes.append(begun)

    def _got(self, at_ms: int, words: list[str]) -> None:
        reader, place, *pairs = words
        here = self._open[reader, place]
        for each in pairs:
            offset, _, value = each.partition("=")
            self.records.note(place, int(offset), value)
            here.offsets.append(int(offset))
            here.times.append(at_ms)
            if here.level == COMMITTED:
                self.first_seen_ms.setdefault(transaction_of(value), at_ms)
        self.read += len(pairs)
        if here.is_tail and here.level == COMMITTED:
            self.consumed_at[place].append(at_ms)

    def _stable(self, at_ms: int, words: list[str]) -> None:
        for each in words[1].split(","):
            place, offset = each.split(":")
            self.stable[place].append(Stable(int(words[0]), at_ms, int(offset)))

    def _was_told(self, at_ms: int, words: list[str]) -> None:
        self.told.append(Told(at_ms, " ".join(words)))

    def _finished(self, _at_ms: int, words: list[str]) -> None:
        self.ended.add(words[0])


_TAKERS: dict[str, Callable[[History, int, list[str]], None]] = {
    "B": History._began,
    "T": History._asks,
    "K": History._ended,
    "U": History._unknown,
    "P": History._begins,
    "R": History._got,
    "L": History._stable,
    "E": History._was_told,
    "D": History._finished,
}
