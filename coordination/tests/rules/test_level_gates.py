"""The level that events need: by type, by field, and by fields of the values in them."""

from __future__ import annotations

import msgspec
import pytest

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import pipeline as pev
from tidegate_coordination.events.gates import EVENT_LEVELS, FIELD_LEVELS, GATES, allowed_to
from tidegate_coordination.events.level_gates import LevelGates
from tidegate_coordination.events.metadata_versions import LEVELS, TENANTS

GATED = LevelGates(
    1,
    {ev.TopicDeleted: 2},
    {
        (ev.GatewayDraining, "stops"): 3,
        (ev.TopicDeleted, "topic_id"): 4,
        (ev.SegmentsOfPartition, "removed"): 5,
        (ev.Segment, "check"): 6,
        (pev.PipelineReport, "records"): 7,
    },
)


def published(removed: int, *checks: int) -> ev.SegmentsPublished:
    segments = tuple(ev.Segment(0, 1, 1, 1, 0, 1, 1, check) for check in checks)
    return ev.SegmentsPublished(1, (ev.SegmentsOfPartition(0, 0, 1, segments, 1, 1, removed),))


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (ev.GatewayRenewed(7), 1),
        (ev.GatewayDraining(1), 1),
        (ev.GatewayDraining(1, stops=True), 3),
        (published(0), 1),
        (published(1), 5),
        (published(1, 0), 6),  # a field without a default always counts as set
        (pev.PipelineReported(1, pev.PipelineReport(0, 0, 0, 0, 5, 0, 0, "", {})), 7),
        (ev.TopicDeleted(b""), 4),
    ],
)
def test_an_event_needs_the_highest_level_of_its_fields(event: ev.Event, level: int) -> None:
    assert GATED.needed_for([event]) == level
    assert GATED.needed_for([ev.GatewayRenewed(), event]) == level


def test_no_events_need_nothing() -> None:
    assert GATED.needed_for([]) == 1


def test_events_go_up_to_the_level_there_is_or_to_which_they_raise_it() -> None:
    assert allowed_to([ev.GatewayRenewed()], 2) == 2
    assert allowed_to([ev.GatewayRenewed(), ev.MetadataVersionSet(3)], 1) == 3


def test_gated_types_and_fields_exist_and_are_newer() -> None:
    for (kind, name), level in FIELD_LEVELS.items():
        fields = {each.name: each for each in msgspec.structs.fields(kind)}
        assert not fields[name].required, f"{kind.__name__}.{name} has no default"
        assert level in LEVELS or level == TENANTS  # no release has the level TENANTS yet
    assert set(EVENT_LEVELS.values()) <= set(LEVELS)
    assert GATES.needed_for([ev.GatewayRenewed()]) == 1
