"""The figures of copy_run.py, and how they are shown.  No I/O here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from crash.ledger import Verdict


@dataclass(slots=True)
class Round:
    """The figures of a round.

    gap: the time between two commits of a copier.  stall: the longest gap of a working copier
    between the kill of a gateway and the next kill.
    """

    mode: str
    messages: int = 0
    seconds: float = 0.0
    aborted_records: int = 0
    gateways_killed: int = 0
    copiers_killed: int = 0
    ended_by_themselves: int = 0
    gap_p50_ms: int = 0
    gap_max_ms: int = 0
    stall_p50_ms: int = 0
    stall_max_ms: int = 0
    gateway_down_max_ms: int = 0
    verdict: Verdict = field(default_factory=Verdict)


@dataclass(slots=True)
class Figures:
    """The measurements of a run.  transactions: of the whole run, by how they ended."""

    client: str
    seed: int
    minutes: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    transactions: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems and all(each.verdict.is_clean for each in self.rounds)


def text_of(done: Round) -> str:
    """Return a line about a round."""
    verdict = done.verdict
    return (
        f"{done.mode}: {done.messages} messages in {done.seconds} s, {done.aborted_records} aborted"
        f" records, {done.gateways_killed} gateways and {done.copiers_killed} copiers killed,"
        f" {done.ended_by_themselves} copiers ended by themselves; gaps in ms {done.gap_p50_ms}"
        f"/{done.gap_max_ms}, stalls after a gateway {done.stall_p50_ms}/{done.stall_max_ms},"
        f" which was away for up to {done.gateway_down_max_ms};"
        f" {verdict.lost} lost, {verdict.duplicates} twice, {verdict.misplaced} misplaced,"
        f" {verdict.out_of_order} out of order"
    )


def table(figures: Figures) -> str:
    """Return the figures as a table."""
    words = "kept" if figures.is_clean else "BROKEN"
    ends = ", ".join(f"{count} {how}" for how, count in sorted(figures.transactions.items()))
    examples = [text for each in figures.rounds for text in each.verdict.examples]
    return "\n".join(
        [
            *map(text_of, figures.rounds),
            f"{figures.client}, {figures.minutes} minutes, seed {figures.seed};"
            f" transactions: {ends}; promises {words}",
            *examples,
            *figures.problems,
        ]
    )
