"""What the simulator's extra replica takes for broken."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from tidegate_coordination import events as ev
from tidegate_coordination.entries import AnyEvent, encode_entry
from tidegate_coordination.metadata_versions import LEVELS
from tidegate_simulation.invariants import StateWatch

PUBLISHED = ev.SegmentsPublished(1, ())
EXPIRED = ev.GatewayExpired(1)
CAME_BACK = ev.GatewayRegistered(2, 1, "key", "zone", (), "0", 1)


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([PUBLISHED, EXPIRED], []),  # the last thing that it did
        ([EXPIRED, PUBLISHED], ["invariant 8"]),
        ([CAME_BACK, PUBLISHED], ["invariant 8"]),
    ],
)
def test_who_leaves_has_ended_from_there_on(events: list[AnyEvent], kinds: list[str]) -> None:
    complaints: list[str] = []
    watch = StateWatch(
        Mock(),
        lambda kind, _: complaints.append(kind),
        Mock(),
        Mock(),
        Mock(),
        hurt=Mock(),
        on_lost=Mock(),
        on_moved=Mock(),
    )
    register: list[Any] = [
        ev.ClusterCreated("cluster", 1),
        ev.GatewayRegistered(1, 1, "key", "zone", (), "0", 0),
    ]
    for position, each in enumerate((register, events), start=1):
        writer = 0 if position == 1 else 1
        entry_format = LEVELS[watch.state.metadata_version].entry_format
        payload = encode_entry(
            b"n" * 12, writer, 1000, each, 1, entry_format=entry_format, position=position
        )
        watch.entry(position, payload)
    assert complaints == kinds
