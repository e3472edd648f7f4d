"""The output of `tidegate topic repair`, for a person and for a script.  No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.state.topics import Topic

from ...tools.kept import KeptRun
from ...tools.proof import Refusal
from ...tools.readability import BadRun, Found, Problem
from .kept_text import SHOWN, KeptOutcome, kept_line, kept_values

UNREADABLE: Final = 1
NOT_TOLD: Final = 2


@dataclass(slots=True)
class Outcome:
    """The result of a repair.

    found: the result of the last check.  skipped: runs that were skipped, in all rounds.  left:
    runs that are still not readable.

    refusal: why the proof of a loss failed.  kept: skipped runs that can be brought back.  keeps:
    whether a skip can be undone.
    """

    topic: Topic
    found: Found
    skipped: list[BadRun] = field(default_factory=list[BadRun])
    left: list[BadRun] = field(default_factory=list[BadRun])
    refusal: Refusal | None = None
    kept: list[KeptRun] = field(default_factory=list[KeptRun])
    keeps: bool = True

    @property
    def exit_code(self) -> int:
        """Return 0 if all records can be read or were skipped."""
        if self.found.unknown or not self.found.is_complete or self.is_in_doubt:
            return NOT_TOLD
        return UNREADABLE if self.left else 0

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the store's answers contradict each other."""
        is_refused = self.refusal is not None and self.refusal.is_about_the_store
        return is_refused or self.found.unsteady > 0


def as_text(outcome: Outcome) -> str:
    """Return a line for each range that cannot be read, and their sum."""
    bad = outcome.found.bad
    lines = [_line(each) for each in bad[:SHOWN]]
    if len(bad) > SHOWN:
        lines.append(f"and {len(bad) - SHOWN} more; --json lists all")
    lost = sum(each.lost for each in outcome.found.unreadable)
    looked = f"{outcome.found.runs} ranges of {outcome.topic.name} were read"
    lines.append(f"{looked}; {lost} records cannot be read")
    return "\n".join(lines)


def _line(each: BadRun) -> str:
    offsets = f"offsets {each.row.base_offset} to {each.row.next_offset - 1}"
    is_lost = each.problem is not Problem.UNKNOWN
    records = f"{each.lost} records {'are lost' if is_lost else 'in doubt'}"
    return f"partition {each.index}, {offsets}: {records}; {each.object_key}: {each.reason}"


def summary(outcome: Outcome, *, skip: bool) -> str:
    """Return the result, and what to do."""
    lines: list[str] = []
    if outcome.skipped:
        lost = sum(each.lost for each in outcome.skipped)
        lines.append(f"{lost} records were skipped; consumers continue after them")
    if outcome.found.unknown or not outcome.found.is_complete:
        lines.append("The object store did not answer for all records: try again later.")
    if outcome.found.unsteady:
        lines.append(
            f"{outcome.found.unsteady} ranges could be read only at a second try: the object store"
            " is not well."
        )
    if outcome.refusal is not None:
        lines.append(outcome.refusal.value)
    if outcome.found.looks_like_the_wrong_store and not outcome.skipped:
        lines.append(_wrong_store(outcome, skip=skip))
    elif (outcome.left or outcome.refusal) and skip:
        lines.append("Not all were skipped." if outcome.skipped else "Nothing was skipped.")
    elif outcome.left:
        lines.append(
            "Nothing was changed. Put the objects back if there is a copy. --skip looks again for"
            f" some minutes, and then removes the records from the topic{_until(outcome)}, so that"
            " consumers continue after them."
        )
    lines = lines or ["All records can be read."]
    if outcome.kept:
        lines.append(kept_line(outcome.kept))
    return "\n".join(lines)


def _until(outcome: Outcome) -> str:
    return " until --bring-back" if outcome.keeps else ", for good"


def _wrong_store(outcome: Outcome, *, skip: bool) -> str:
    found = outcome.found
    return (
        f"Of the {len(found.objects)} objects that hold them {found.present or 'none'} are in the"
        " object store: this looks like the wrong prefix or bucket. Give the --object-store that"
        " the gateways have. If these objects are really lost, --even-if-many skips them."
        f" {'Nothing was skipped.' if skip else 'Nothing was changed.'}"
    )


def as_json_text(outcome: Outcome) -> str:
    """Return the outcome as JSON."""
    skipped = [{**_values(each), "skipped": True} for each in outcome.skipped]
    left = [{**_values(each), "skipped": False} for each in outcome.left]
    return json.dumps(
        {
            "ok": outcome.exit_code == 0,
            "topic": outcome.topic.name,
            "topic_id": outcome.topic.topic_id.hex(),
            "looked_at": {"runs": outcome.found.runs, "bytes": outcome.found.bytes},
            "is_complete": outcome.found.is_complete,
            "looks_like_the_wrong_store": outcome.found.looks_like_the_wrong_store,
            "unsteady": outcome.found.unsteady,
            "refusal": outcome.refusal.name.lower() if outcome.refusal is not None else None,
            "unreadable": [*skipped, *left],
            "undetermined": [_values(each) for each in outcome.found.unknown],
            "skipped_records": sum(each.lost for each in outcome.skipped),
            "kept": kept_values(KeptOutcome(outcome.topic.name, outcome.kept)),
        }
    )


def _values(each: BadRun) -> dict[str, object]:
    return {
        "partition": each.index,
        "base_offset": each.row.base_offset,
        "next_offset": each.row.next_offset,
        "records": each.lost,
        "object": each.object_key,
        "problem": each.problem.name.lower(),
        "reason": each.reason,
    }
