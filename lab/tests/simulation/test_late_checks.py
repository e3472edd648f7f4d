"""The simulator's check that no administrative request acts late."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import AnyEvent, Entry
from tidegate_coordination.state.cluster import ClusterState
from tidegate_simulation.checks.late_checks import CREATE, DELETE, LatenessWatch

X = b"x" * 16


@dataclass
class World:
    state: ClusterState = field(default_factory=ClusterState)
    found: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.watch = LatenessWatch(self.state, lambda kind, text: self.found.append(kind))

    def appends(self, *events: AnyEvent) -> None:
        entry = Entry(1, b"n", 0, 0, events)
        self.state.apply(self.state.position + 1, entry)
        self.watch.after_entry(entry)


def test_a_request_may_act_while_its_client_waits() -> None:
    world = World()
    world.watch.begins("x", CREATE)
    world.appends(ev.TopicCreated(X, "x", 1, 1, {}))
    world.watch.acknowledged("x")
    world.watch.begins("x", "7")
    world.watch.begins("x", "8")  # the outcome of the former request is unknown
    world.appends(ev.ConfigsSet(2, "x", {"a": "8"}), ev.ConfigsSet(2, "x", {"a": "7"}))
    world.watch.begins("x", DELETE)
    world.appends(ev.TopicDeleted(X))
    assert not world.found


@pytest.mark.parametrize(
    "late", [ev.ConfigsSet(2, "x", {"a": "7"}), ev.TopicDeleted(X)], ids=["config", "deletion"]
)
def test_a_request_that_acts_after_a_later_acknowledgement_is_late(late: AnyEvent) -> None:
    world = World()
    world.appends(ev.TopicCreated(X, "x", 1, 1, {}), ev.TopicCreated(b"o" * 16, "other", 1, 1, {}))
    for what in ("7", DELETE, "8"):
        world.watch.begins("x", what)
    world.watch.acknowledged("x")
    world.appends(ev.ConfigsSet(2, "other", {"a": "7"}))
    assert not world.found
    world.appends(late)
    assert world.found == ["acted late"]


def test_a_topic_is_emptied_only_while_its_client_waits() -> None:
    world = World()
    world.appends(ev.TopicCreated(X, "x", 1, 1, {}))
    partition = world.state.partitions[0]
    partition.next_offset = 7
    world.watch.begins_to_empty("x")
    world.appends(ev.LogStartsMoved(((0, 5),)))
    world.watch.emptied("x")
    partition.next_offset = 9
    world.appends(ev.LogStartsMoved(((0, 7),)))  # in flight, and not too far
    assert not world.found
    world.appends(ev.LogStartsMoved(((0, 8),)))
    assert world.found == ["acted late"]
