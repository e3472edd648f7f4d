"""ACL requests to a gateway without an authorizer."""

from __future__ import annotations

import pytest

from tests.worlds.admin_world import admin_world
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidegate_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest

DISABLED = ErrorCode.SECURITY_DISABLED
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_disabled_without_an_authorizer(version: int) -> None:
    creation = AclCreation(TOPIC, "a", LITERAL, "User:a", "*", READ, ALLOW)
    deletion = DeleteAclsFilter(TOPIC, None, LITERAL, None, None, READ, ALLOW)
    async with admin_world() as [gateway]:
        described = await gateway.ask(
            DescribeAclsRequest(TOPIC, None, LITERAL, None, None, READ, ALLOW), version
        )
        created = await gateway.ask(CreateAclsRequest([creation, creation]), version)
        deleted = await gateway.ask(DeleteAclsRequest([deletion]), version)

    assert (described.error_code, described.resources) == (DISABLED, [])
    assert [each.error_code for each in created.results] == [DISABLED, DISABLED]
    [row] = deleted.filter_results
    assert (row.error_code, row.matching_acls) == (DISABLED, [])
    assert described.error_message == created.results[0].error_message == row.error_message
    assert "authorizer" in described.error_message


async def test_nothing_asked_for_is_nothing_refused() -> None:
    async with admin_world() as [gateway]:
        created = await gateway.ask(CreateAclsRequest([]))
        deleted = await gateway.ask(DeleteAclsRequest([]))
    assert (created.results, deleted.filter_results) == ([], [])
