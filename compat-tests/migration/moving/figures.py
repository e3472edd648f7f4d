"""The figures of switch.py, and how they are printed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from crash.ledger import Verdict
from faults.ledger import Repeats
from faults.watch import Judged


@dataclass(slots=True)
class Figures:
    """The measurements of a run.

    stalls_ms: for each switch, the longest gap between acknowledgements, less the longest gap
    before the switch.  commands_ms: how long each switch took.  lifted: how many tries of a switch
    were given up.  back_stalls_ms, back_commands_ms, kept: the same for rollbacks.  newer_epochs:
    partitions whose batches have newer leader epochs at the source.
    """

    rounds: int = field(default=0, init=False)
    lifted: int = field(default=0, init=False)
    kept: int = field(default=0, init=False)
    back_stalls_ms: list[int] = field(default_factory=list, init=False)
    back_commands_ms: list[int] = field(default_factory=list, init=False)
    newer_epochs: int = field(default=0, init=False)
    hurts: int = field(default=0, init=False)
    stalls_ms: list[int] = field(default_factory=list, init=False)
    commands_ms: list[int] = field(default_factory=list, init=False)
    acknowledged: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    records: int = field(default=0, init=False)
    verdict: Verdict = field(default_factory=Verdict, init=False)
    repeats: Repeats = field(default_factory=Repeats, init=False)
    problems: list[str] = field(default_factory=list, init=False)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems and not self.failed

    def add(self, topic: str, judged: Judged) -> None:
        """Add the findings of a round."""
        self.rounds += 1
        self.acknowledged += sum(judged.acknowledged.values())
        self.failed += sum(judged.failed.values())
        self.records += judged.records
        self.problems += [f"{topic}: {each}" for each in judged.problems]
        for name in Verdict.__dataclass_fields__:
            found = getattr(self.verdict, name) + getattr(judged.verdict, name)
            setattr(self.verdict, name, found)
        self.repeats.doubled += judged.repeats.doubled
        self.repeats.late += judged.repeats.late
        self.repeats.examples += judged.repeats.examples


def text(figures: Figures, *, with_repeats: bool) -> str:
    """Return the figures for people."""
    stalls = sorted(figures.stalls_ms)
    half = int(statistics.median(stalls)) if stalls else 0
    repeats = figures.repeats
    return "\n".join(
        [
            f"{len(stalls)} switches, {figures.lifted} lifted before, {figures.hurts} hurts",
            f"writers waited p50 {half} ms, at most {max(stalls, default=0)} ms",
            *_of_rollbacks(figures),
            f"{figures.acknowledged} acknowledged, {figures.failed} failed,"
            f" {figures.records} records read",
            f"{figures.verdict}",
            *([f"of plain producers: {repeats}"] if with_repeats else []),
            *figures.problems,
            "promises kept" if figures.is_clean else "promises BROKEN",
        ]
    )


def _of_rollbacks(figures: Figures) -> list[str]:
    stalls = sorted(figures.back_stalls_ms)
    if not stalls:
        return []
    half = int(statistics.median(stalls))
    seconds = [each / 1000 for each in figures.back_commands_ms]
    return [
        f"{len(stalls)} rollbacks, {figures.kept} lifted before: writers waited p50 {half} ms,"
        f" at most {stalls[-1]} ms; each took p50 {statistics.median(seconds):.0f} s,"
        f" at most {max(seconds):.0f} s; {figures.newer_epochs} partitions have newer epochs there"
    ]
