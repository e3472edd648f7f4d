"""`tidegate topic repair --bring-back` and `--give-up`: the end of a skip."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...tools.repair import Repair
from ..asking import agreed
from ..output.bar import BytesBar
from .kept_text import KeptOutcome, kept_lines, kept_summary, kept_values, records_of
from .repair_text import NOT_TOLD, UNREADABLE


async def bring_back(
    repair: Repair,
    outcome: KeptOutcome,
    numbers: Sequence[int],
    *,
    yes: bool,
    even_if_compacted: bool,
    says: bool,
) -> None:
    """Read the kept ranges of the partitions `numbers`, and bring back the readable ones."""
    kept = repair.kept(numbers)
    total = sum(each.row.length for each in kept)
    with BytesBar("reading", total, is_shown=says) as bar:
        outcome.kept = await repair.read_kept(kept, bar.add)
    if says:
        print(kept_lines(outcome.kept, is_read=True), flush=True)
    whole = [each for each in outcome.kept if each.problem is None]
    if whole and await agreed(f"Bring {records_of(whole)} records back?", yes=yes):
        outcome.ended = await repair.bring_back(whole, even_if_compacted=even_if_compacted)
        outcome.see_unreadable(outcome.ended.unreadable)
        outcome.after = repair.kept(numbers)


async def give_up(
    repair: Repair, outcome: KeptOutcome, numbers: Sequence[int], *, yes: bool, says: bool
) -> None:
    """Drop the kept ranges of the partitions `numbers` for good."""
    outcome.kept = repair.kept(numbers)
    if says:
        print(kept_lines(outcome.kept, is_read=False), flush=True)
    question = f"Give {records_of(outcome.kept)} records up for good?"
    if outcome.kept and await agreed(question, yes=yes):
        outcome.ended = await repair.give_up(outcome.kept)
        outcome.after = repair.kept(numbers)


def exit_code(outcome: KeptOutcome) -> int:
    """Return 0 if nothing is kept any more."""
    if outcome.is_unknown:
        return NOT_TOLD
    return UNREADABLE if outcome.left else 0


def told(outcome: KeptOutcome, *, brings_back: bool, as_json: bool) -> str:
    """Return the result for a person, or for a script."""
    if not as_json:
        return kept_summary(outcome, brings_back=brings_back)
    done = outcome.ended.done if outcome.ended is not None else []
    return json.dumps(
        {
            "ok": exit_code(outcome) == 0,
            "topic": outcome.topic,
            "kept": kept_values(outcome),
            "brought_back_records": records_of(done) if brings_back else 0,
            "given_up_records": 0 if brings_back else records_of(done),
            "is_compacted": outcome.ended is not None and outcome.ended.is_compacted,
        }
    )
