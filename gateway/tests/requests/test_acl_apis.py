"""ACLs of a cluster with an authorizer, as admin clients see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, SECURITY
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.rules.security import acls as rules
from tidegate_coordination.rules.security import parts as rule_parts
from tidegate_gateway.requests.acls import acls as handlers
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidegate_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest

ON = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOPIC, GROUP, CLUSTER = 2, 3, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, IDEMPOTENT_WRITE = 3, 12
DENY, ALLOW = 2, 3
ALL_ACLS = (ANY, None, ANY, None, None, ANY, ANY)


@asynccontextmanager
async def cluster(level: int = SECURITY, gateways: int = 1) -> AsyncIterator[list[AdminGateway]]:
    async with admin_world(*({**ON} for _ in range(gateways))) as world:
        for each in world:
            await each.coordinator.propose(Renew(level))
        assert not await world[0].coordinator.propose(SetMetadataVersion(level))
        yield world


def creation(
    name: str = "orders",
    resource_type: int = TOPIC,
    pattern: int = LITERAL,
    principal: str = "User:bob",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(resource_type, name, pattern, principal, "*", operation, permission)


async def create(gateway: AdminGateway, *rows: AclCreation, version: int = 3) -> Any:
    return (await gateway.ask(CreateAclsRequest(list(rows)), version)).results


async def names(gateway: AdminGateway, *wanted: Any, version: int = 3) -> set[str]:
    described = await gateway.ask(DescribeAclsRequest(*(wanted or ALL_ACLS)), version)
    assert (described.error_code, described.error_message) == (0, "")
    return {each.resource_name for each in described.resources}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_created_listed_and_deleted(version: int) -> None:
    rows = [
        creation(),
        creation(principal="User:eve", permission=DENY),
        creation("ord", pattern=PREFIXED),
        creation("g", GROUP),
    ]
    async with cluster() as [gateway]:
        results = await create(gateway, *rows, version=version)
        assert [(each.error_code, each.error_message) for each in results] == [(0, "")] * 4
        again = await create(gateway, rows[0], rows[0], version=version)
        assert [each.error_code for each in again] == [0, 0]
        described = await gateway.ask(
            DescribeAclsRequest(TOPIC, "orders", MATCH, None, None, ANY, ANY), version
        )
        shown = {
            (each.resource_name, each.pattern_type): [
                (row.principal, row.host, row.operation, row.permission_type) for row in each.acls
            ]
            for each in described.resources
        }
        assert shown == {
            ("orders", LITERAL): [
                ("User:bob", "*", READ, ALLOW),
                ("User:eve", "*", READ, DENY),
            ],
            ("ord", PREFIXED): [("User:bob", "*", READ, ALLOW)],
        }
        filters = [
            DeleteAclsFilter(TOPIC, "orders", LITERAL, None, None, ANY, ANY),
            DeleteAclsFilter(TOPIC, None, ANY, "User:bob", None, ANY, ANY),
            DeleteAclsFilter(TOPIC, "none", ANY, None, None, ANY, ANY),
        ]
        deleted = await gateway.ask(DeleteAclsRequest(filters), version)
        assert [each.error_code for each in deleted.filter_results] == [0, 0, 0]
        assert {each.error_message for each in deleted.filter_results} == {None}
        found = [
            {(row.resource_name, row.principal) for row in each.matching_acls}
            for each in deleted.filter_results
        ]
        orders, ord_ = ("orders", "User:bob"), ("ord", "User:bob")
        assert found == [{orders, ("orders", "User:eve")}, {orders, ord_}, set()]
        assert await names(gateway, version=version) == {"g"}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            creation("k", CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (creation("*", CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (creation(""), "Invalid empty resource name"),
        (creation(resource_type=1), "Invalid resourceType ANY"),
        (creation(resource_type=0), "Invalid resourceType UNKNOWN"),
        (creation(resource_type=99), "Invalid resourceType UNKNOWN"),
        (creation(pattern=MATCH), "Invalid patternType MATCH"),
        (creation(pattern=ANY), "Invalid patternType ANY"),
        (creation(pattern=9), "Invalid patternType UNKNOWN"),
        (creation(operation=1), "Invalid operation ANY"),
        (creation(operation=16), "Invalid operation UNKNOWN"),
        (creation(permission=1), "Invalid permissionType ANY"),
        (creation(permission=-7), "Invalid permissionType UNKNOWN"),
        (
            creation(principal="bob"),
            "Could not parse principal from `bob` (no colon is present separating the principal"
            " type from the principal name)",
        ),
    ],
)
async def test_acls_that_are_refused(row: AclCreation, text: str) -> None:
    async with cluster() as [gateway]:
        good = creation("good")
        results = await create(gateway, row, good)
        assert [(each.error_code, each.error_message) for each in results] == [
            (ErrorCode.INVALID_REQUEST, text),
            (0, ""),
        ]
        assert await names(gateway) == {"good"}


async def test_a_long_principal_without_colon_is_quoted_in_part() -> None:
    async with cluster() as [gateway]:
        [result] = await create(gateway, creation(principal="x" * 32_767))
        assert result.error_code == ErrorCode.INVALID_REQUEST


async def test_what_kafka_stores_is_stored() -> None:
    rows = [
        creation(operation=IDEMPOTENT_WRITE),
        creation("kafka-cluster", CLUSTER, PREFIXED),
        AclCreation(GROUP, "*", PREFIXED, ":", "10.0.0.0/8", READ, ALLOW),
        AclCreation(GROUP, "g", LITERAL, "User:bob", "", READ, ALLOW),
    ]
    async with cluster() as [gateway]:
        assert [each.error_code for each in await create(gateway, *rows)] == [0] * 4
        assert await names(gateway) == {"orders", "kafka-cluster", "*", "g"}


@pytest.mark.parametrize(
    ("field", "text"),
    [(0, "Unknown patternFilter."), (2, "Unknown patternFilter."), (5, "Unknown entryFilter.")],
)
async def test_filters_with_unknown_numbers(field: int, text: str) -> None:
    async with cluster() as [gateway]:
        await create(gateway, creation())
        for number in (0, 99):
            wanted: list[Any] = [*ALL_ACLS]
            wanted[field] = number
            filters = [
                DeleteAclsFilter(*wanted),
                DeleteAclsFilter(TOPIC, "x", ANY, None, None, 1, 1),
            ]
            deleted = await gateway.ask(DeleteAclsRequest(filters))
            bad, good = deleted.filter_results
            assert (bad.error_code, bad.error_message) == (ErrorCode.INVALID_REQUEST, text)
            assert good.error_code == 0
            described = await gateway.ask(DescribeAclsRequest(*wanted))
            expected = (ErrorCode.INVALID_REQUEST, text) if number == 0 else (0, "")
            assert (described.error_code, described.error_message) == expected
            assert described.resources == []
        assert await names(gateway) == {"orders"}


async def test_the_other_gateways_know_them_at_once() -> None:
    async with cluster(gateways=2) as [one, two]:
        await create(one, creation())
        assert await names(two) == {"orders"}
        acls = two.state.acls
        assert acls.index.may("User:bob", "h", READ, TOPIC, "orders") is True


async def test_below_the_level_of_security() -> None:
    async with cluster(SECURITY - 1) as [gateway]:
        described = await gateway.ask(DescribeAclsRequest(*ALL_ACLS))
        [created] = await create(gateway, creation())
        deleted = await gateway.ask(DeleteAclsRequest([DeleteAclsFilter(*ALL_ACLS)]))
    for each in (described, created, *deleted.filter_results):
        assert each.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert f"{FEATURE_NAME}={SECURITY}" in each.error_message


async def test_many_acls_take_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_parts, "MAX_PART_BYTES", 2_000)
    monkeypatch.setattr(rules, "MAX_PART_BYTES", 2_000)
    rows = [creation(f"topic-{number:04}") for number in range(1_200)]
    async with cluster() as [gateway]:
        results = await create(gateway, *rows)
        assert {each.error_code for each in results} == {0}
        assert len(await names(gateway)) == 1_200
        before = gateway.state.position
        filters = [
            DeleteAclsFilter(TOPIC, None, ANY, "User:bob", None, ANY, ANY),
            DeleteAclsFilter(TOPIC, "topic-0007", LITERAL, None, None, ANY, ANY),
        ]
        deleted = await gateway.ask(DeleteAclsRequest(filters))
        counts = [len(each.matching_acls) for each in deleted.filter_results]
        assert counts == [1_200, 1]
        assert gateway.state.position > before + 10
        assert await names(gateway) == set()


async def test_a_request_may_not_add_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_ADDED", 3)
    async with cluster() as [gateway]:
        rows = [creation(str(number)) for number in range(4)]
        results = await create(gateway, *rows)
        assert {each.error_code for each in results} == {ErrorCode.POLICY_VIOLATION}
        assert await names(gateway) == set()
        assert {each.error_code for each in await create(gateway, *rows[:3], *rows[:1])} == {0}
        # ACLs that exist already do not count as added.
        assert {each.error_code for each in await create(gateway, *rows)} == {0}


@pytest.mark.parametrize(
    ("bound", "most", "text"),
    [("MAX_REMOVED", 3, "Cannot remove more than"), ("MAX_LOOKS", 7, "look at too many")],
)
async def test_a_request_may_not_remove_too_many_or_look_at_too_many(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int, text: str
) -> None:
    monkeypatch.setattr(handlers, bound, most)
    async with cluster() as [gateway]:
        await create(gateway, *(creation(str(number)) for number in range(4)))
        deleted = await gateway.ask(DeleteAclsRequest([DeleteAclsFilter(*ALL_ACLS)] * 2))
        for result in deleted.filter_results:
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert text in result.error_message
        assert len(await names(gateway)) == 4


async def test_a_failed_proposal_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async with cluster() as [gateway]:
        await create(gateway, creation())
        monkeypatch.setattr(rules.CreateAcls, "decide", fail)
        monkeypatch.setattr(rules.DeleteAcls, "decide", fail)
        [created] = await create(gateway, creation("other"))
        deleted = await gateway.ask(DeleteAclsRequest([DeleteAclsFilter(*ALL_ACLS)]))
        for each in (created, *deleted.filter_results):
            assert each.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert "internal error" in each.error_message
