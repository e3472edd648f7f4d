"""Client quotas, as admin clients see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.rules.security import parts as rule_parts
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_client_quotas as alter
from tidegate_protocol.messages import describe_client_quotas as describe

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
Entity = tuple[tuple[str, str | None], ...]

BOB: Entity = (("user", "bob"),)
DEFAULT_CLIENT: Entity = (("client-id", None),)


@asynccontextmanager
async def cluster(level: int = SECURITY, gateways: int = 1) -> AsyncIterator[list[AdminGateway]]:
    async with admin_world(*({} for _ in range(gateways))) as world:
        for each in world:
            await each.coordinator.propose(Renew(level))
        assert not await world[0].coordinator.propose(SetMetadataVersion(level))
        yield world


def entry(entity: Entity, **quotas: float | None) -> alter.AlterClientQuotasRequestEntryData:
    """Return the changes of an entity's quotas; None removes one."""
    named = [alter.AlterClientQuotasRequestEntityData(*each) for each in entity]
    ops = [alter.OpData(key, value or 0.0, value is None) for key, value in quotas.items()]
    return alter.AlterClientQuotasRequestEntryData(named, ops)


async def change(
    gateway: AdminGateway, *entries: Any, only_checks: bool = False
) -> list[tuple[int, str | None]]:
    request = alter.AlterClientQuotasRequest(list(entries), only_checks)
    response = await gateway.ask(request)
    return [(each.error_code, each.error_message) for each in response.entries]


async def described(
    gateway: AdminGateway, *components: Any, strict: bool = False
) -> dict[Entity, dict[str, float]]:
    asked = [describe.ComponentData(*each) for each in components]
    response = await gateway.ask(describe.DescribeClientQuotasRequest(asked, strict))
    assert response.error_code == 0, response.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


async def test_quotas_are_set_described_and_removed() -> None:
    async with cluster() as [gateway]:
        both = entry(BOB, producer_byte_rate=1000.0, consumer_byte_rate=2000.0)
        assert await change(gateway, both, entry(DEFAULT_CLIENT, consumer_byte_rate=5.0)) == [
            (0, None),
            (0, None),
        ]
        assert await described(gateway) == {
            BOB: {PRODUCE: 1000.0, FETCH: 2000.0},
            DEFAULT_CLIENT: {FETCH: 5.0},
        }
        assert list(await described(gateway, ("user", EXACT, "bob"))) == [BOB]
        assert list(await described(gateway, ("client-id", DEFAULT, None))) == [DEFAULT_CLIENT]
        assert list(await described(gateway, ("user", SPECIFIED, None), strict=True)) == [BOB]
        await change(gateway, entry(BOB, producer_byte_rate=None))
        assert (await described(gateway))[BOB] == {FETCH: 2000.0}


async def test_the_other_gateways_know_them_at_once() -> None:
    async with cluster(gateways=2) as [one, two]:
        await change(one, entry(BOB, producer_byte_rate=1000.0))
        assert await described(two) == {BOB: {PRODUCE: 1000.0}}


async def test_a_request_may_only_be_checked() -> None:
    async with cluster() as [gateway]:
        asked = entry(BOB, producer_byte_rate=1000.0)
        assert await change(gateway, asked, only_checks=True) == [(0, None)]
        assert await described(gateway) == {}


async def test_a_wrong_entity_leaves_the_others_of_the_request_as_they_are_to_be() -> None:
    nobody: Entity = (("user", ""),)
    async with cluster() as [gateway]:
        wrong, right = await change(
            gateway, entry(nobody, producer_byte_rate=1.0), entry(BOB, producer_byte_rate=1.0)
        )
        assert wrong == (ErrorCode.INVALID_REQUEST, "Empty user not supported")
        assert right == (0, None)
        assert list(await described(gateway)) == [BOB]


async def test_an_entity_that_is_named_twice_is_left_as_it_is() -> None:
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null})"
    async with cluster() as [gateway]:
        assert await change(
            gateway,
            entry(DEFAULT_CLIENT, producer_byte_rate=1.0),
            entry(DEFAULT_CLIENT, consumer_byte_rate=1.0),
            entry(BOB, producer_byte_rate=1.0),
        ) == [(ErrorCode.INVALID_REQUEST, text)] * 2 + [(0, None)]
        assert list(await described(gateway)) == [BOB]


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (("planet", EXACT, "mars"), ErrorCode.UNSUPPORTED_VERSION),
        (("user", EXACT, None), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_filters_that_are_refused(component: Any, code: int) -> None:
    request = describe.DescribeClientQuotasRequest([describe.ComponentData(*component)], False)
    async with cluster() as [gateway]:
        response = await gateway.ask(request)
    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message


async def test_below_the_level_of_security() -> None:
    async with cluster(SECURITY - 1) as [gateway]:
        [(code, text)] = await change(gateway, entry(BOB, producer_byte_rate=1.0))
        assert code == ErrorCode.UNSUPPORTED_VERSION
        assert text
        assert await described(gateway) == {}


async def test_long_requests_are_several_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_parts, "MAX_PART_BYTES", 100)
    async with cluster() as [gateway]:
        entities: list[Entity] = [(("user", f"user-{number}"),) for number in range(20)]
        before = gateway.coordinator.state.position
        found = await change(gateway, *(entry(each, producer_byte_rate=1.0) for each in entities))
        assert found == [(0, None)] * 20
        assert gateway.coordinator.state.position > before + 1
        assert list(await described(gateway)) == entities


@pytest.mark.parametrize(
    ("client_id", "user"), [("one", "bob"), ("one", None), (None, "bob"), (None, None)]
)
async def test_answers_have_the_order_of_kafkas(client_id: str | None, user: str | None) -> None:
    """Clients compare whole answers."""
    entity: Entity = (("user", user), ("client-id", client_id))
    named = [("client-id", client_id), ("user", user)]
    rates = {PRODUCE: 1000.0, FETCH: 1000.0, "request_percentage": 0.5}
    async with cluster() as [gateway]:
        asked = alter.AlterClientQuotasRequest([entry(entity, **rates)], False)
        [done] = (await gateway.ask(asked)).entries
        assert [(each.entity_type, each.entity_name) for each in done.entity] == named
        assert done.error_message is None
        found = await gateway.ask(describe.DescribeClientQuotasRequest([], False))
        assert found.error_message == ""
        [row] = found.entries
        assert [(each.entity_type, each.entity_name) for each in row.entity] == named
        keys = [each.key for each in row.values]
        assert keys == [FETCH, "request_percentage", PRODUCE]
        await change(gateway, entry(entity, controller_mutation_rate=1.0))
        found = await gateway.ask(describe.DescribeClientQuotasRequest([], False))
        keys = [each.key for each in found.entries[0].values]
        assert keys == [PRODUCE, FETCH, "controller_mutation_rate", "request_percentage"]
