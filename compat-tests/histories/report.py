"""The figures of a run, and how they are shown.  No I/O here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from faults.stalls import Happened, KindFigures

from histories.checks import Wait
from histories.watch import Judged

MOST_ERRORS = 6


@dataclass(slots=True)
class Figures(Judged):
    """The measurements of a run; kinds: by kind of fault."""

    seed: int = 0
    minutes: float = 0.0
    kinds: dict[str, KindFigures] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)


def table(figures: Figures) -> str:
    """Return a line per kind of fault and family, then totals and the verdict."""
    lines = [f"{'fault':18} {'count':>5} {'client':10} {'stall ms: written':>17} {'read':>6}"]
    for kind, each in sorted(figures.kinds.items()):
        for name, seen in each.families.items():
            stalls = f"{seen.acknowledgement_stall_ms:17} {seen.consumption_stall_ms:6}"
            lines.append(f"{kind:18} {each.count:5} {name:10} {stalls}")
    count = len(figures.happened)
    lines.append(f"{count} faults in {figures.minutes} minutes, seed {figures.seed}")
    return "\n".join([*lines, *summary(figures)])


def summary(judged: Judged) -> list[str]:
    """Return a line for each family, then totals and the verdict; [] without clients."""
    if not judged.ends:
        return []
    lines: list[str] = []
    for name, ends in judged.ends.items():
        errors = ", ".join(f"{n} {text}" for text, n in ends.errors.most_common(MOST_ERRORS))
        lines.append(
            f"{name}: {ends.committed} committed, {ends.aborted} aborted, {ends.unknown} unknown;"
            f" {errors or 'no errors'}"
        )
    verdict = judged.verdict
    anomalies = ", ".join(f"{count} {kind}" for kind, count in verdict.anomalies.items())
    apart = ", ".join(f"{count} {kind}" for kind, count in verdict.apart.items())
    return [
        *lines,
        f"{judged.records['committed']} of {judged.records['all']} records committed,"
        f" {judged.read} read, {judged.orders} orders, {judged.segments} segments;"
        f" longest calm wait {_wait(judged.longest_wait)}",
        f"anomalies: {anomalies or 'none'}; apart, of version 1: {apart or 'none'};"
        f" promises {'kept' if judged.is_clean else 'BROKEN'}",
        *verdict.examples,
        *judged.problems,
    ]


def _wait(wait: Wait) -> str:
    seen = time.strftime("%H:%M:%S", time.localtime(wait.seen_ms / 1000))
    return f"{wait.ms} ms, of {wait.reader} until {seen}"
