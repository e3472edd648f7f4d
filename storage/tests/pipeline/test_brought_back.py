"""Skipped runs that come back into a compacted topic are merged, so that compaction continues."""

from __future__ import annotations

from tests.pipeline.test_segment_ages import HOUR_MS, plan_of
from tests.rules.test_compaction_rules_published import compact
from tests.rules.test_segment_rules import publish, rows, unit, world_with
from tests.rules.test_skip_rules import end_skip, skip
from tidegate_coordination.events.cluster import ClusterCreated


def test_a_round_that_ends_after_a_bring_back_does_not_stop_compaction() -> None:
    """A round of compaction covers segments up to the first run that is no segment."""
    world = world_with(3)
    first, stretch, last = ([each] for each in rows(world))
    skip(world, stretch)
    publish(world, unit(first), unit(last, attempt=2))
    end_skip(world, stretch, back=True, even=True)
    compact(world, 9)
    world.clock_ms += HOUR_MS
    world.apply(ClusterCreated("c" * 22, timeline=1))

    plan = plan_of(world, {"cleanup.policy": "compact"})

    assert plan.add_merges(0)
    assert stretch[0] in plan.units[0].parents
