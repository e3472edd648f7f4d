"""Transactional ids that gateways forward, and units that are switched whole: rules and folds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.worlds.mirror_world import MIRRORED, SOURCE, World, topic
from tidegate_coordination.events.cluster import Endpoint, GatewayRegistered
from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.events.metadata_versions import SWITCHES
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.events.transactions import TransactionalIdInitialised
from tidegate_coordination.rules.migration.group_moves import (
    FenceGroups,
    GroupToMove,
    MoveGroups,
    ReachGroupFence,
    UnfenceGroups,
)
from tidegate_coordination.rules.migration.mirrors import LinkRefusal, MirrorTopics, SetLink
from tidegate_coordination.rules.migration.returns import ReverseTopics
from tidegate_coordination.rules.migration.switches import (
    FenceTopics,
    LiftFence,
    ReachFence,
    SwitchTopics,
)
from tidegate_coordination.rules.migration.units import MAX_IDS, IdToMove
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.transactions.rows import TransactionState

LINK = SetLink(
    "src",
    SOURCE,
    "h:1",
    (".*",),
    forwards=True,
    groups=("g-*",),
    transactional_ids=("app-*", "one"),
    transaction_version=2,
)
GROUP = GroupToMove(GroupChanged("g-1", 0, "consumer", 7, None, None, ()), ())
ID = IdToMove("app-1", 1 << 41, 5, 60_000, TransactionState.COMPLETE_COMMIT)
ENDS = ((MIRRORED, (0, 0)),)
UNIT = SwitchTopics(1, ENDS, (GROUP,), (ID,))


def linked() -> World:
    world = World(SWITCHES)
    assert world.propose(LINK) is None
    assert world.propose(MirrorTopics("src", (topic(),))) == []
    return world


def held() -> World:
    world = linked()
    assert world.propose(FenceGroups("src", ("g-1",), ("app-*",))) == 1
    world.propose(ReachGroupFence(1, ()))
    return world


def fenced() -> World:
    world = held()
    assert world.propose(FenceTopics("src", ((MIRRORED, ""),), 1)) == 1
    world.propose(ReachFence(1))
    return world


def link_of(world: World, name: str) -> str:
    return world.state.link_groups.link_of_id(name)


def test_a_link_names_transactional_ids_or_what_they_begin_with() -> None:
    world = linked()
    found = [link_of(world, each) for each in ("app-1", "one", "ones", "app", "")]
    assert found == ["src", "src", "", "", ""]
    again = ClusterState.decode(world.state.encode())
    assert again.link_groups.link_of_id("app-1") == "src"
    assert again.links.by_name["src"].transaction_version == 2


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"transactional_ids": ("",)}, LinkRefusal.NO_ID),
        ({"forwards": False}, LinkRefusal.IDS_WITHOUT_WRITES),
        ({"name": "other", "groups": (), "transactional_ids": ("app-1",)}, LinkRefusal.IDS_TAKEN),
    ],
)
def test_a_link_with_ids_that_make_no_sense(changes: dict[str, Any], refusal: LinkRefusal) -> None:
    again = dataclasses.replace(LINK, replaces=True, **changes)
    assert linked().propose(again) is refusal


def test_no_gateway_initialises_an_id_that_is_at_the_source() -> None:
    """A gateway that proposes this may not have read yet that the link exists."""
    world = linked()
    answer = world.propose(InitialiseTransactionalId("app-1", 60_000, spare_id=1 << 42))
    assert answer.refusal is TransactionRefusal.NOT_HOLDER
    assert world.state.transactions.get("app-1") is None


def test_an_id_that_is_here_is_this_clusters() -> None:
    world = World(SWITCHES)
    world.apply(TransactionalIdInitialised("app-1", 1 << 42, 0, -1, -1, 60_000))
    assert world.propose(LINK) is None
    assert (link_of(world, "app-1"), link_of(world, "app-2")) == ("", "src")


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (FenceGroups("src", (), ("app-1",)), "does not forward transactional ids by the name"),
        (FenceGroups("src", (), ("one", "one")), "once"),
        (FenceGroups("src", (), ("app-*",)), "being moved already"),
        (FenceGroups("src", (), ()), "once"),
    ],
)
def test_a_fence_of_ids_that_makes_no_sense(proposal: FenceGroups, reason: str) -> None:
    assert reason in held().propose(proposal)


def test_a_unit_moves_in_one_entry() -> None:
    world = fenced()
    assert world.state.link_groups.fences[1].switch == 1
    assert world.propose(UNIT) == ""
    state = world.state
    assert MIRRORED in state.switches.switched
    assert not state.link_groups.fences
    assert (link_of(world, "app-1"), link_of(world, "app-9"), link_of(world, "one")) == (
        "",
        "",
        "src",
    )
    assert state.groups.get("g-1") is not None
    row = state.transactions.get("app-1")
    assert row is not None
    assert (row.producer_id, row.epoch, row.timeout_ms) == (1 << 41, 5, 60_000)
    assert row.state is TransactionState.COMPLETE_COMMIT
    again = ClusterState.decode(world.state.encode())
    assert again.link_groups.moved_ids == {"src": {"app-*"}}
    assert again.transactions.get("app-1") == row


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"groups": ()}, "not the groups of the fence"),
        ({"ids": (dataclasses.replace(ID, transactional_id="one"),)}, "not one of the unit"),
        ({"ids": (ID, ID)}, "named twice"),
        ({"ids": (ID, dataclasses.replace(ID, transactional_id="app-2"))}, "one producer id"),
        ({"ids": (dataclasses.replace(ID, state=TransactionState.ONGOING),)}, "open transaction"),
        ({"ids": (ID,) * (MAX_IDS + 1)}, "up to 2000"),
        ({"ends": ((MIRRORED, (1, 0)),)}, "and its copy at"),
    ],
)
def test_a_unit_that_does_not_fit_stays(changes: dict[str, Any], reason: str) -> None:
    world = fenced()
    assert reason in world.propose(dataclasses.replace(UNIT, **changes))
    assert world.state.transactions.get("app-1") is None
    assert world.state.link_groups.fences[1].switch == 1


def test_a_producer_id_of_another_id_is_refused() -> None:
    world = fenced()
    world.apply(TransactionalIdInitialised("else", 1 << 41, 0, -1, -1, 60_000))
    assert "another id's" in world.propose(UNIT)


def test_topics_are_fenced_once_the_unit_is_at_rest_everywhere() -> None:
    world = linked()
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(2, 2, "key2", "az1", endpoint, "0", 0), writer=0)
    assert world.propose(FenceGroups("src", ("g-1",), ("app-*",))) == 1
    world.propose(ReachGroupFence(1, ()))
    assert world.propose(FenceTopics("src", ((MIRRORED, ""),), 1)) == "gateway 2 did not answer"
    assert "was lifted" in world.propose(FenceTopics("src", ((MIRRORED, ""),), 2))


def test_a_unit_and_its_topics_end_together() -> None:
    world = fenced()
    assert world.propose(UnfenceGroups(1, "late")) is False
    assert "move with their topics" in world.propose(MoveGroups(1, (GROUP,)))
    assert world.propose(LiftFence(1, "too slow")) is True
    assert not world.state.link_groups.fences
    assert link_of(world, "app-1") == "src"
    assert "lifted" in world.propose(UNIT)


def test_a_restore_ends_a_unit_and_its_topics_stay() -> None:
    world = fenced()
    world.apply(TimelineOpened(1, 5, 0, "r"), writer=0)
    assert not world.state.link_groups.fences
    assert world.state.switches.fences[1].lifted
    assert "lifted" in world.propose(UNIT)


def test_moved_ids_do_not_move_again_and_their_topics_do_not_go_back() -> None:
    world = fenced()
    assert world.propose(UNIT) == ""
    assert "cannot go back" in world.propose(ReverseTopics("src"))
    assert "have moved already" in world.propose(FenceGroups("src", (), ("app-*",)))
