"""The output of `tidegate topic repair` about skipped records that are kept.  No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...tools.kept import Ended, KeptRun
from ...tools.readability import Problem

SHOWN: Final = 200


@dataclass(slots=True)
class KeptOutcome:
    """The result of --bring-back or --give-up.

    kept: the kept runs before the command; --bring-back has read them.  ended: None if nothing was
    changed.

    after: the runs that are still kept after the command; some may have expired meanwhile.
    """

    topic: str
    kept: list[KeptRun] = field(default_factory=list[KeptRun])
    ended: Ended | None = None
    after: list[KeptRun] = field(default_factory=list[KeptRun])

    @property
    def left(self) -> list[KeptRun]:
        """Return the runs that are still kept."""
        if self.ended is None:
            return self.kept
        left_at = {(each.partition, each.row) for each in self.after}
        left_at -= {(each.partition, each.row) for each in self.ended.done}
        return [each for each in self.kept if (each.partition, each.row) in left_at]

    @property
    def is_unknown(self) -> bool:
        """Return whether a run could not be checked, since the store did not answer."""
        return any(each.problem is Problem.UNKNOWN for each in self.kept)

    def see_unreadable(self, runs: Iterable[KeptRun]) -> None:
        """Note the problems of runs that could not be read the second time."""
        again = {(each.partition, each.row): each for each in runs}
        self.kept = [again.get((each.partition, each.row), each) for each in self.kept]


def records_of(runs: Sequence[KeptRun]) -> int:
    """Return how many records come back with the runs."""
    return sum(each.records for each in runs)


def kept_line(kept: Sequence[KeptRun]) -> str:
    """Return a line with the number and size of the kept records."""
    size_bytes = sum(each.row.length for each in kept)
    return (
        f"{records_of(kept)} skipped records are kept, {size_bytes} bytes in {len(kept)} ranges:"
        " --bring-back brings back those that can be read again"
    )


def kept_lines(kept: Sequence[KeptRun], *, is_read: bool) -> str:
    """Return a line for each kept range."""
    lines = [_line(each, is_read=is_read) for each in kept[:SHOWN]]
    if len(kept) > SHOWN:
        lines.append(f"and {len(kept) - SHOWN} more; --json lists all")
    return "\n".join(lines) or "No skipped records are kept."


def _line(each: KeptRun, *, is_read: bool) -> str:
    offsets = f"offsets {each.row.base_offset} to {each.row.next_offset - 1}"
    verdict = "are kept"
    if is_read:
        verdict = "can be read" if each.problem is None else "cannot be read"
    text = f"partition {each.index}, {offsets}: {each.records} records {verdict};"
    return f"{text} {each.object_key}{f': {each.reason}' if each.reason else ''}"


def kept_summary(outcome: KeptOutcome, *, brings_back: bool) -> str:
    """Return the result, and what to do."""
    ended = outcome.ended
    lines: list[str] = []
    if ended is not None and ended.done:
        lines.append(_done(records_of(ended.done), brings_back=brings_back))
    if outcome.is_unknown:
        lines.append("The object store did not answer for all records: try again later.")
    if ended is not None and ended.is_compacted:
        lines.append(
            "The topic is, or was, compacted: an old value of a key may come back, if the tombstone"
            " after it was removed meanwhile. --even-if-compacted brings the records back all the"
            " same."
        )
    if outcome.left:
        lines.append(f"{records_of(outcome.left)} records stay skipped, and are kept.")
    return "\n".join(lines)


def _done(records: int, *, brings_back: bool) -> str:
    if not brings_back:
        return f"{records} records were given up."
    return (
        f"{records} records were brought back. Consumers that have passed their offsets do not read"
        " them by themselves: `tidegate group seek` sets where a group goes on."
    )


def kept_values(outcome: KeptOutcome) -> list[dict[str, object]]:
    """Return all kept ranges for a script.

    problem: null if the range is readable, or was not read.
    """
    left = set(map(_place, outcome.left))
    return [
        {
            "partition": each.index,
            "base_offset": each.row.base_offset,
            "next_offset": each.row.next_offset,
            "records": each.records,
            "bytes": each.row.length,
            "object": each.object_key,
            "problem": each.problem.name.lower() if each.problem is not None else None,
            "reason": each.reason,
            "is_kept": _place(each) in left,
        }
        for each in outcome.kept
    ]


def _place(each: KeptRun) -> tuple[int, int]:
    return each.partition, each.row.base_offset
