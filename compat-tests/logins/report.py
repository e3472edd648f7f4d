"""The figures of a run.  No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crash.ledger import Verdict

from logins.audits import Logins
from logins.ledger import LibraryLedger, PairLedger, Topics
from logins.plan import user_of


@dataclass(slots=True)
class PairFigures:
    """The counts of the clients of one library with one mechanism.

    failed: requests of the application that failed for good.  retried: errors that the library
    handled.  connections, again: logins of new connections, and repeated logins of open ones; 0
    without audit logs.
    """

    library: str
    mechanism: str
    acknowledged: int
    read: int
    read_again: int
    failed: int
    retried: int
    lost: int
    twice: int
    misplaced: int
    connections: int
    again: int

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        wrong = self.failed + self.lost + self.twice + self.misplaced
        return self.acknowledged > 0 and self.read >= self.acknowledged and not wrong


@dataclass(slots=True)
class Figures:
    """The measurements of a run.

    changes: how often each kind was made.  reloads: how often certificates were read again.
    """

    minutes: float
    pairs: list[PairFigures]
    changes: Mapping[str, int]
    reloads: int
    refused: Mapping[str, int]
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems and not self.refused and all(each.is_clean for each in self.pairs)


def judged(ledgers: Sequence[LibraryLedger], found: Topics, logins: Logins) -> list[PairFigures]:
    """Compare the answers that clients got with the records of their topics."""
    return [
        _pair(ledger.library, mechanism, pair, found, logins)
        for ledger in ledgers
        for mechanism, pair in ledger.pairs.items()
    ]


def _pair(
    library: str, mechanism: str, pair: PairLedger, found: Topics, logins: Logins
) -> PairFigures:
    user = user_of(library, mechanism)
    verdict = pair.verdict(found[user])
    _keep_examples(pair, verdict)
    return PairFigures(
        library,
        mechanism,
        acknowledged=pair.producer.count,
        read=pair.read,
        read_again=pair.again,
        failed=pair.failed,
        retried=sum(pair.warnings.values()),
        lost=verdict.lost,
        twice=verdict.duplicates,
        misplaced=verdict.misplaced + verdict.out_of_order,
        connections=logins.connections[user],
        again=logins.again[user],
    )


def _keep_examples(pair: PairLedger, verdict: Verdict) -> None:
    failed = [f"record {number} failed: {error}" for number, error in pair.producer.failed]
    for text in [*verdict.examples, *failed, *(f"error: {each}" for each in pair.errors)]:
        pair.problem(text)


def table(figures: Figures) -> str:
    """Return a line per pair, then totals and the verdict."""
    heads = ("written", "read", "again", "failed", "retried", "lost", "twice", "place")
    head = f"{'library':13}{'mechanism':15}" + "".join(f"{each:>8}" for each in heads)
    lines = [f"{head}{'connections':>13}{'logins again':>14}"]
    for each in figures.pairs:
        counts = (
            each.acknowledged,
            each.read,
            each.read_again,
            each.failed,
            each.retried,
            each.lost,
            each.twice,
            each.misplaced,
        )
        numbers = "".join(f"{count:8}" for count in counts)
        lines.append(
            f"{each.library:13}{each.mechanism:15}{numbers}{each.connections:13}{each.again:14}"
        )
    changes = ", ".join(f"{kind} {count}" for kind, count in figures.changes.items())
    words = "kept" if figures.is_clean else "BROKEN"
    return "\n".join(
        [
            *lines,
            f"{figures.minutes:.1f} minutes; changes: {changes}; certificates taken"
            f" {figures.reloads} times; refused logins: {dict(figures.refused)}; promises {words}",
            *figures.problems,
        ]
    )
