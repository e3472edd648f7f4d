"""Planted bugs of compaction; see planted_bugs.py.

`unwatched` switches the simulator's own checks of segments off, so that clients must notice.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.rules.records.segments import Publication, PublishCompaction
from tidegate_pipeline.tasks import compact_task, compaction
from tidegate_pipeline.tasks.compaction import AbortedSet, LatestOffsets
from tidegate_protocol.batches import BatchHeader


def unwatched(plant: Plant) -> Plant:
    def both(patch: pytest.MonkeyPatch) -> None:
        for check in ("check_published", "check_cleaned"):
            patch.setattr(f"tidegate_simulation.invariants.invariants.{check}", lambda *_: None)
        plant(patch)

    both.__name__ = f"{plant.__name__}_unwatched"
    return both


def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidegate_pipeline.planning.compact_plan.cleaned_before", lambda *_: 1 << 60)


def forgets_when_rounds_were(patch: pytest.MonkeyPatch) -> None:
    """The second round removes tombstones, however soon it begins."""
    patch.setattr(
        "tidegate_pipeline.planning.compact_plan.cleaned_before",
        lambda cleanings, _: cleanings[-1].end_offset if cleanings else 0,
    )


def hides_the_newest(patch: pytest.MonkeyPatch) -> None:
    def add(self: LatestOffsets, batch: memoryview, aborted: AbortedSet) -> None:
        real(self, batch, aborted)
        for key in self.offsets:
            self.offsets[key] |= 1

    real = LatestOffsets.add
    patch.setattr(LatestOffsets, "add", add)


def keeps_the_oldest(patch: pytest.MonkeyPatch) -> None:
    def add(self: LatestOffsets, batch: memoryview, aborted: AbortedSet) -> None:
        known = dict(self.offsets)
        real(self, batch, aborted)
        self.offsets.update(known)

    real = LatestOffsets.add
    patch.setattr(LatestOffsets, "add", add)


def says_it_learned_all(patch: pytest.MonkeyPatch) -> None:
    async def learn(sources: Any, unit: Any, rules: Any) -> LatestOffsets:
        latest = await real(sources, unit, rules)
        latest.end_offset = unit.next_offset
        return latest

    real = compact_task._learn
    patch.setattr(compact_task, "_learn", learn)


def counts_rounds_that_were_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublishCompaction, "_answer", lambda *_: Publication.PUBLISHED)


def counts_offsets_from_zero(patch: pytest.MonkeyPatch) -> None:
    """A rewritten batch loses its base offset."""

    def rebuilt(batch: Any, header: BatchHeader, *rest: Any) -> memoryview:
        return real(batch, header._replace(base_offset=header.base_offset - 1), *rest)

    real = compaction._rebuilt
    patch.setattr(compaction, "_rebuilt", rebuilt)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (tombstones_go_at_once, {"segment"}, 4),
        (forgets_when_rounds_were, {"segment"}, 117),
        (hides_the_newest, {"segment"}, 4),
        (unwatched(hides_the_newest), {"lost", "skipped"}, 16),
        (keeps_the_oldest, {"segment", "compaction"}, 19),
        (says_it_learned_all, {"compaction"}, 4),
        (
            untried(counts_rounds_that_were_cut),
            {in_rules("cannot be folded"), "compaction", "state broken"},
            218,
        ),
        (counts_offsets_from_zero, {"segment"}, 27),
        (unwatched(counts_offsets_from_zero), {"duplicate", "inconsistent offset"}, 18),
    ],
)
def test_planted_bug_of_compaction_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, lambda plan: plan.pipelines.compacts)
