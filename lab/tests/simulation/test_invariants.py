"""The violations that the simulator's independent replica finds."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import AnyEvent, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import LEVELS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_simulation.invariants.invariants import StateWatch
from tidegate_simulation.invariants.replays import REPLAY_ENTRIES, replay

RENEWED = ev.GatewayRenewed()
PUBLISHED = ev.SegmentsPublished(1, ())
EXPIRED = ev.GatewayExpired(1)
CAME_BACK = ev.GatewayRegistered(2, 1, "key", "zone", (), "0", 1)


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([PUBLISHED, EXPIRED], []),  # the last event of the incarnation
        ([EXPIRED, PUBLISHED], ["invariant 8"]),
        ([CAME_BACK, PUBLISHED], ["invariant 8"]),
    ],
)
def test_a_graceful_leave_ends_the_incarnation(events: list[AnyEvent], kinds: list[str]) -> None:
    world = Watched()
    world.add(*events)
    assert world.kinds == kinds


def test_a_former_state_is_accepted() -> None:
    world = Watched()
    for _ in range(REPLAY_ENTRIES + 9):
        world.add(RENEWED)
    for position in (1, REPLAY_ENTRIES, REPLAY_ENTRIES + 1, REPLAY_ENTRIES + 10):
        state = replay(world.watch.payloads[:position])
        world.watch.replays.compare("a gateway", state)
        assert world.kinds == []
        state.log_time_ms += 1
        world.watch.replays.compare("a gateway", state)
        assert world.kinds == ["invariant 5"]
        world.kinds.clear()


def test_a_state_that_is_no_fold_of_the_log_is_found() -> None:
    world = Watched()
    world.watch.state.gateways.lease_ms += 1
    for _ in range(REPLAY_ENTRIES - 1):
        world.add(RENEWED)
    assert set(world.kinds) == {"invariant 5"}


def test_a_violation_after_the_last_comparison_is_found_at_the_end() -> None:
    world = Watched()
    world.watch.replays.replay_all()
    assert world.kinds == []
    world.watch.state.gateways.lease_ms += 1
    world.watch.replays.replay_all()
    assert world.kinds == ["invariant 5"]


def test_a_snapshot_from_which_the_log_folds_to_another_state_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = ClusterState.decode

    def decoded(data: bytes) -> ClusterState:
        state = decode(data)
        state._folds[ev.ConfigsSet] = (lambda _: None, 0)
        return state

    monkeypatch.setattr(ClusterState, "decode", decoded)
    world = Watched()
    for _ in range(REPLAY_ENTRIES):
        world.add(RENEWED)
    assert world.kinds == []
    world.add(ev.ConfigsSet(4, "1", {"wal.linger.ms": "0"}))
    for _ in range(REPLAY_ENTRIES - 2):
        world.add(RENEWED)
    assert world.kinds == ["invariant 5"]


class Watched:
    """A watch of a cluster with one gateway, and the kinds of its complaints."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.watch = StateWatch(
            Mock(),
            lambda kind, _: self.kinds.append(kind),
            Mock(),
            Mock(),
            Mock(),
            hurt=Mock(),
            on_lost=Mock(),
            on_back=Mock(),
            on_moved=Mock(),
            settings=Mock(),
            groups=Mock(),
            leases=Mock(),
        )
        register = ev.GatewayRegistered(1, 1, "key", "zone", (), "0", 0)
        self.add(ev.ClusterCreated("cluster", 1), register)

    def add(self, *events: AnyEvent) -> None:
        """Append an entry."""
        state = self.watch.state
        position = state.position + 1
        payload = encode_entry(
            b"n" * 12,
            0 if position == 1 else 1,
            1000,
            encode_events(events),
            1,
            entry_format=LEVELS[state.metadata_version].entry_format,
            position=position,
        )
        self.watch.entry(position, payload)
