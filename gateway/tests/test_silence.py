"""A gateway that neither answers nor writes is relieved of its groups before its lease is over."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.test_group_handlers import NONE, Gateway, cluster, find
from tidegate_coordination.events import ClaimTaken, GatewayDraining, GatewayRegistered
from tidegate_coordination.rules.gateways import Renew, TakeClaim
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.silence import SILENT_SHARE, LastEntry, Silences
from tidegate_protocol.error_codes import ErrorCode

HOLDER, OTHER = 1, 2


@pytest.fixture
def state() -> ClusterState:
    made = ClusterState()
    for number in (HOLDER, OTHER):
        event = GatewayRegistered(number, number, f"k{number}", "", (), "0", 0)
        made.gateways.fold_registered(event, 1000)
    made.claims.fold_taken(ClaimTaken("group/g", HOLDER, 1))
    return made


def taken(state: ClusterState, silent: LastEntry | None, *, appender: int = OTHER) -> int | None:
    view = View(state, OTHER, 2000, 2000, appender=appender)
    return TakeClaim("group/g", silent).decide(view).answer


def test_a_claim_is_taken_from_who_has_not_written_since(state: ClusterState) -> None:
    assert taken(state, (HOLDER, 1000)) == 2
    assert taken(state, None) is None


def test_a_claim_stays_with_who_has_written_since(state: ClusterState) -> None:
    state.gateways.fold_clock(HOLDER, 1001)
    assert taken(state, (HOLDER, 1000)) is None


def test_a_claim_that_moved_meanwhile_is_not_taken(state: ClusterState) -> None:
    state.claims.fold_taken(ClaimTaken("group/g", OTHER + 1, 2))
    state.gateways.live[OTHER + 1] = state.gateways.live[HOLDER]
    assert taken(state, (HOLDER, 1000)) is None


def test_who_appends_for_others_is_not_silent(state: ClusterState) -> None:
    assert taken(state, (HOLDER, 1000), appender=HOLDER) is None


def test_nobody_who_drains_takes_over(state: ClusterState) -> None:
    state.gateways.fold_draining(GatewayDraining(OTHER))
    assert taken(state, (HOLDER, 1000)) is None


def test_silence_is_counted_from_the_first_look_after_the_last_entry(state: ClusterState) -> None:
    enough = SILENT_SHARE * state.gateways.lease_ms / 1000
    silences = Silences(state.gateways)
    silences.look([HOLDER], 0.0)
    assert silences.last_entry_of(HOLDER, enough - 0.1) is None
    assert silences.last_entry_of(HOLDER, enough) == (HOLDER, 1000)
    state.gateways.fold_clock(HOLDER, 3000)
    silences.look([HOLDER], enough)
    assert silences.last_entry_of(HOLDER, enough) is None
    assert silences.last_entry_of(HOLDER, 2 * enough) == (HOLDER, 3000)


def test_who_answers_begins_anew(state: ClusterState) -> None:
    silences = Silences(state.gateways)
    silences.look([HOLDER], 0.0)
    silences.look([], 50.0)
    silences.look([HOLDER], 51.0)
    assert silences.last_entry_of(HOLDER, 52.0) is None
    assert silences.last_entry_of(OTHER, 52.0) is None


# -- through the handlers -------------------------------------------------------------------------


class Suspicion:
    """Neighbours of a gateway that finds another one silent."""

    def __init__(self, gateway: Gateway, suspect: Gateway) -> None:
        incarnation = suspect.coordinator.incarnation
        self.absent = frozenset({incarnation})
        life = gateway.coordinator.state.gateways.live[incarnation]
        self._last_entry = (incarnation, life.clock_ms)

    def silent(self, incarnation: int) -> LastEntry | None:
        return self._last_entry if incarnation in self.absent else None


async def named(gateway: Gateway, group_id: str = "g") -> int:
    [found] = await find(gateway, group_id)
    node_id: int = found.node_id
    return node_id


def suspect(gateway: Gateway, other: Gateway) -> None:
    hosted: Any = gateway.groups._groups
    hosted._neighbours = Suspicion(gateway, other)


async def test_members_go_on_at_the_successor_without_a_rejoin(autojump_clock: MockClock) -> None:
    async with cluster(1, 2) as [one, two]:
        member, generation = await one.stable()
        await two.coordinator.catch_up()
        assert await named(two) == 1
        suspect(two, one)
        assert await named(two) == 2
        assert await two.heartbeat(member, generation) == NONE
        await one.coordinator.catch_up()
        assert await one.heartbeat(member, generation) == ErrorCode.NOT_COORDINATOR


async def test_who_wrote_since_keeps_its_groups(autojump_clock: MockClock) -> None:
    async with cluster(1, 2) as [one, two]:
        member, generation = await one.stable()
        await two.coordinator.catch_up()
        suspect(two, one)
        await trio.sleep(1.0)
        await one.coordinator.propose(Renew())
        assert await named(two) == 1
        assert await one.heartbeat(member, generation) == NONE


async def test_a_new_group_goes_to_nobody_who_is_absent(autojump_clock: MockClock) -> None:
    async with cluster(1, 2) as [one, two]:
        suspect(two, one)
        assert {await named(two, f"g{each}") for each in range(20)} == {2}
