"""FindCoordinator, and which gateway lists a group."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.group_world import NONE, Clock, cluster, find
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.rules.gateways import StartDraining
from tidegate_gateway.groups.hosted_groups import ADOPT_SECONDS
from tidegate_gateway.network.call import Peer
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import list_groups as lg


async def test_every_group_is_listed_by_exactly_one_gateway(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as gateways:
        names = [f"group {number}" for number in range(12)]
        for name in names:
            await gateways[0].commit({("orders", 0): 1}, group_id=name)
        await gateways[0].groups.hand_over()
        listed = [name for each in gateways for name in await each.listed()]
        assert sorted(listed) == sorted(names)


async def test_unclaimed_groups_hash_over_the_gateways(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as gateways:
        names = [f"group {number}" for number in range(50)]
        for each in gateways:
            await each.coordinator.catch_up()
        answers = [[c.node_id for c in await find(each, *names)] for each in gateways]
        assert answers[0] == answers[1] == answers[2]
        assert answers[0] == [choose(name.encode(), [1, 2, 3]) for name in names]
        assert set(answers[0]) == {1, 2, 3}


async def test_unclaimed_groups_hash_over_those_that_answer(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as [one, two, three]:
        names = [f"group {number}" for number in range(50)]
        await three.coordinator.propose(StartDraining(one.coordinator.incarnation))
        three.absent = frozenset({two.coordinator.incarnation})
        assert {each.node_id for each in await find(three, *names)} == {3}
        three.absent |= {three.coordinator.incarnation}
        assert {each.node_id for each in await find(three, *names)} == {2, 3}


async def test_a_group_that_is_held_waits_for_its_holder(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        await one.stable()
        await two.coordinator.catch_up()
        two.absent = frozenset({one.coordinator.incarnation})
        assert [each.node_id for each in await find(two, "g")] == [1]
        assert await two.listed() == {}


async def test_unclaimed_groups_are_served_by_gateways_that_answer(
    autojump_clock: Clock,
) -> None:
    """The groups are listed, and adopted if they have members, since dead members must expire."""
    async with cluster(1, 2) as [one, two]:
        names = [f"group {number}" for number in range(8)]
        for name in names:
            await one.stable(name)
        two.absent = frozenset({one.coordinator.incarnation})
        await one.groups.hand_over()
        await two.coordinator.catch_up()
        assert sorted(await two.listed()) == names
        await trio.sleep(ADOPT_SECONDS + 1)
        for name in names:
            assert two.groups._groups.get(name) is not None


async def test_unclaimed_groups_hash_over_gateways_with_the_clients_listener(
    autojump_clock: Clock,
) -> None:
    some = {1: ("PLAINTEXT", "INNER"), 2: ("PLAINTEXT", "INNER")}
    names = [f"group {number}" for number in range(20)]
    request = fc.FindCoordinatorRequest(coordinator_keys=names)
    inner = Peer("127.0.0.1", 5000, "INNER")
    async with cluster(1, 2, 3, listeners=some) as [one, two, three]:
        found = (await one.ask(fc, request, 6, inner)).coordinators
        assert {each.error_code for each in found} == {NONE}
        assert [each.node_id for each in found] == [choose(each.encode(), [1, 2]) for each in names]
        one.absent = frozenset({two.coordinator.incarnation})
        assert {each.node_id for each in (await one.ask(fc, request, 6, inner)).coordinators} == {1}
        nowhere = Peer("127.0.0.1", 5000, "NOWHERE")
        found = (await three.ask(fc, request, 6, nowhere)).coordinators
        assert {each.error_code for each in found} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_cut_off_gateway_names_no_coordinator_if_no_other_has_the_listener(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = fc.FindCoordinatorRequest(coordinator_keys=["g"])
    async with cluster(1, 2, listeners={1: ("PLAINTEXT", "INNER")}) as [one, _]:
        monkeypatch.setattr(type(one.coordinator), "is_cut_off", True)
        one.absent = frozenset({one.coordinator.incarnation})
        for listener, code, node_id in (
            ("PLAINTEXT", NONE, 2),
            ("INNER", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        ):
            peer = Peer("127.0.0.1", 5000, listener)
            [found] = (await one.ask(fc, request, 6, peer)).coordinators
            assert (found.error_code, found.node_id) == (code, node_id)


async def test_a_gateway_that_is_cut_off_names_those_that_it_hears(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is cut off does not see that the lease of a dead gateway has expired."""
    async with cluster(1, 2, 3) as [one, two, three]:
        await three.stable("g")
        assert [each.node_id for each in await find(one, "g")] == [3]
        monkeypatch.setattr(type(one.coordinator), "is_cut_off", True)
        assert [each.node_id for each in await find(one, "g")] == [3]
        me = one.coordinator.incarnation
        one.absent = frozenset({me, three.coordinator.incarnation})
        assert [each.node_id for each in await find(one, "g")] == [2]
        # If no gateway answers it, it hashes over all others.
        one.absent = frozenset({me})
        names = [f"group {number}" for number in range(20)]
        assert {each.node_id for each in await find(one, *names)} == {2, 3}
        one.absent = frozenset({me, two.coordinator.incarnation, three.coordinator.incarnation})
        assert {each.node_id for each in await find(one, *names)} == {2, 3}


async def test_each_group_is_listed_by_one_gateway_with_the_clients_listener(
    autojump_clock: Clock,
) -> None:
    some = {1: ("PLAINTEXT", "INNER"), 2: ("PLAINTEXT", "INNER")}
    names = [f"group {number}" for number in range(12)]
    async with cluster(1, 2, 3, listeners=some) as gateways:
        for name in names:
            await gateways[2].commit({("orders", 0): 1}, group_id=name)
        await gateways[2].groups.hand_over()
        for listener, asked in (("INNER", gateways[:2]), ("PLAINTEXT", gateways)):
            peer = Peer("127.0.0.1", 5000, listener)
            answers = [await each.ask(lg, lg.ListGroupsRequest(), 5, peer) for each in asked]
            listed = [group.group_id for each in answers for group in each.groups]
            assert sorted(listed) == sorted(names)


@pytest.mark.parametrize("version", range(7))
async def test_coordinator_is_named_with_the_endpoint_of_the_listener(
    autojump_clock: Clock, version: int
) -> None:
    async with cluster() as [gateway]:
        answer = await find(gateway, "g", version=version)
        one = answer if version < 4 else answer[0]
        assert (one.node_id, one.host, one.port) == (1, "gateway-1", 9092)
        assert one.error_code == NONE


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (1, 1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (1, 3, ErrorCode.UNSUPPORTED_VERSION),
        (1, 6, ErrorCode.UNSUPPORTED_VERSION),
        *((2, version, ErrorCode.INVALID_REQUEST) for version in (1, 3, 4, 6)),
    ],
)
async def test_other_kinds_of_coordinators_are_refused(
    autojump_clock: Clock, version: int, kind: int, code: ErrorCode
) -> None:
    async with cluster() as [gateway]:
        answer = await find(gateway, "id", kind=kind, version=version)
        one = answer if version < 4 else answer[0]
        assert (one.error_code, one.node_id) == (code, -1)
        assert "support" in one.error_message or "transactions need" in one.error_message
