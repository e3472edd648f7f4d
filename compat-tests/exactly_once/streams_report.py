"""The figures of streams_run.py, and how they are shown.  No I/O here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from crash.ledger import Verdict


@dataclass(slots=True)
class Figures:
    """The measurements of a run.  stall: the longest time without committed output.

    restores: of a store's partition.  transactions: by how they ended.  errors: of threads.
    """

    seed: int
    minutes: float = 0.0
    inputs: int = field(default=0, init=False)
    outputs: int = field(default=0, init=False)
    uncommitted_outputs: int = field(default=0, init=False)
    gateways_killed: int = field(default=0, init=False)
    instances_hurt: Counter[str] = field(default_factory=Counter, init=False)
    lives: int = field(default=0, init=False)
    ended_by_themselves: int = field(default=0, init=False)
    errors: Counter[str] = field(default_factory=Counter, init=False)
    restores: int = field(default=0, init=False)
    restored_records: int = field(default=0, init=False)
    longest_restore_ms: int = field(default=0, init=False)
    longest_stall_ms: int = field(default=0, init=False)
    gateway_down_max_ms: int = field(default=0, init=False)
    transactions: Counter[str] = field(default_factory=Counter, init=False)
    verdict: Verdict = field(default_factory=Verdict, init=False)
    problems: list[str] = field(default_factory=list, init=False)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems


def table(figures: Figures) -> str:
    """Return the figures for people."""
    verdict = figures.verdict
    words = "kept" if figures.is_clean else "BROKEN"
    ends = ", ".join(f"{count} {how}" for how, count in sorted(figures.transactions.items()))
    hurt = ", ".join(f"{count} {how}" for how, count in sorted(figures.instances_hurt.items()))
    lines = [
        f"{figures.inputs} inputs, {figures.outputs} committed counts,"
        f" {figures.uncommitted_outputs - figures.outputs} aborted ones",
        f"{figures.gateways_killed} gateways killed; instances: {hurt};"
        f" {figures.lives} lives, {figures.ended_by_themselves} ended by themselves,"
        f" errors {dict(figures.errors)}",
        f"{figures.restores} restores of {figures.restored_records} records, the longest"
        f" {figures.longest_restore_ms} ms; longest stall {figures.longest_stall_ms} ms,"
        f" a gateway was away for up to {figures.gateway_down_max_ms} ms",
        f"transactions: {ends}",
        f"{figures.minutes} minutes, seed {figures.seed}: {verdict.lost} lost,"
        f" {verdict.duplicates} twice, {verdict.misplaced} misplaced; promises {words}",
    ]
    return "\n".join([*lines, *verdict.examples, *figures.problems])
