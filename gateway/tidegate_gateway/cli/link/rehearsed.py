"""Rehearses for `tidegate link plan --rehearse`, and prints what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tidegate_coordination.client.cluster import ClassicCluster

from ...migration.survey.estimates import (
    Estimate,
    Measured,
    Problem,
    estimate,
    switch_problem,
    time_problems,
)
from ...migration.survey.looking import Candidate
from ...migration.survey.rehearsal import Rehearsal, rehearse
from ..output.table import printable

_MIB: Final = 1 << 20
_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The findings of a rehearsal, and the estimate from them.

    problems: of the findings and of the estimate.
    """

    found: Rehearsal
    estimate: Estimate
    problems: Sequence[Problem]


async def rehearsal_of(
    source: ClassicCluster,
    candidates: Sequence[Candidate],
    given_mib: float,
    append_seconds: float,
) -> Rehearsed:
    """Rehearse the topics that can be mirrored; see estimates.py for the numbers.

    Raises:
      ClassicError: the source does not answer.
    """
    topics = [each for each in candidates if not each.obstacle]
    found = await rehearse(source, topics)
    measured = Measured(
        found.read_bytes,
        found.read_seconds,
        found.metadata_seconds,
        found.offsets_seconds,
        append_seconds,
    )
    sizes = [each.size_bytes for each in topics if not each.is_mirrored]
    result = estimate(sizes, measured, given_mib)
    problems = [*found.problems, *time_problems(found.configs, result.copy_seconds or 0.0)]
    return Rehearsed(found, result, problems)


def rehearsed_text(rehearsed: Rehearsed) -> str:
    """Return the result as text, with a newline at its end."""
    found, result = rehearsed.found, rehearsed.estimate
    batches = sum(each.batches for each in found.reads)
    lines = [
        f"Read {found.read_bytes / _MIB:.1f} MiB, of one partition of each topic, in"
        f" {found.read_seconds:.2f} s: the CRCs of {batches} batches are right.",
        _copy_line(result),
        f"Switch of all at once: about {result.stall_seconds:.2f} s without writes (Metadata"
        f" {found.metadata_seconds * 1000:.1f} ms, ListOffsets"
        f" {found.offsets_seconds * 1000:.1f} ms at the median).",
    ]
    late = switch_problem(result.stall_seconds)
    lines += [f"That is {late}."] if late else []
    shown = rehearsed.problems[:_SHOWN]
    lines += [f"PROBLEM {printable(each.topic)}: {printable(each.text)}" for each in shown]
    more = len(rehearsed.problems) - len(shown)
    lines += [f"  and {more} more"] if more else []
    return "\n".join([*lines, ""])


def _copy_line(result: Estimate) -> str:
    if result.size_bytes is None or result.copy_seconds is None:
        return "Copy: its time needs the right to DESCRIBE the source's cluster."
    rate = f"{result.mib_per_second:.0f} MiB/s" + ("" if result.is_measured else ", a guess")
    return (
        f"Copy: {result.size_bytes / _MIB:.0f} MiB at {rate}: about"
        f" {result.copy_seconds / 60:.1f} min, and {result.objects} requests for as many WAL"
        " objects."
    )


def rehearsed_dict(rehearsed: Rehearsed) -> dict[str, object]:
    """Return the same for scripts."""
    found = rehearsed.found
    late = switch_problem(rehearsed.estimate.stall_seconds)
    return {
        "reads": [each._asdict() for each in found.reads],
        "read_bytes": found.read_bytes,
        "read_seconds": round(found.read_seconds, 3),
        "metadata_ms": round(found.metadata_seconds * 1000, 2),
        "list_offsets_ms": round(found.offsets_seconds * 1000, 2),
        **asdict(rehearsed.estimate),
        "switch_problem": late or None,
        "problems": [each._asdict() for each in rehearsed.problems],
    }
