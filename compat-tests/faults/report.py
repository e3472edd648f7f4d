"""The figures of a run, and how they are shown.  No I/O here."""

from __future__ import annotations

from dataclasses import dataclass, field

from faults.stalls import Happened, KindFigures, Seen
from faults.watch import Judged


@dataclass(slots=True)
class Figures(Judged):
    """The measurements of a run; kinds: by kind of fault."""

    seed: int = 0
    minutes: float = 0.0
    kinds: dict[str, KindFigures] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)


def table(figures: Figures) -> str:
    """Return a line per kind of fault and family, then totals and the verdict."""
    head = (
        f"{'fault':18} {'count':>5} {'client':10} {'stall ms: sent':>14} {'read':>6} {'failed':>6}"
    )
    lines = [head + "  errors that clients reported"]
    for kind, each in sorted(figures.kinds.items()):
        for name, seen in each.families.items():
            lines.append(f"{kind:18} {each.count:5} {name:10} {_seen(seen)}")
    for name, count in figures.acknowledged.items():
        lines.append(
            f"{name}: {count} acknowledged, {figures.failed[name]} failed,"
            f" {figures.consumed[name]} read by the group in {figures.commits[name]} commits"
        )
    return "\n".join([*lines, *_verdict(figures)])


def _seen(seen: Seen) -> str:
    errors = ", ".join(f"{count} {text}" for text, count in seen.errors.most_common(4))
    stalls = f"{seen.acknowledgement_stall_ms:14} {seen.consumption_stall_ms:6}"
    return f"{stalls} {seen.failed_records:6}  {errors}"


def _verdict(figures: Figures) -> list[str]:
    verdict = figures.verdict
    words = "kept" if figures.is_clean else "BROKEN"
    return [
        f"{len(figures.happened)} faults in {figures.minutes} minutes, seed {figures.seed},"
        f" {figures.records} records: {verdict.lost} lost, {verdict.duplicates} twice,"
        f" {verdict.misplaced} misplaced, {verdict.out_of_order} out of order; promises {words}",
        *verdict.examples,
        *figures.problems,
    ]
