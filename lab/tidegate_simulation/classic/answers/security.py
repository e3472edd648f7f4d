"""DescribeAcls, DescribeClientQuotas and DescribeUserScramCredentials: as of Kafka 4.3.

Quotas are shown whole: a filter of entities is not looked at.
"""

from __future__ import annotations

import trio

from tidegate_coordination.security.acls import Acl, AclFilter
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_acls as da
from tidegate_protocol.messages import describe_client_quotas as dq
from tidegate_protocol.messages import describe_user_scram_credentials as du

from .. import rights
from ..broker_state import Asked

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def answer_describe_acls(
    asked: Asked, request: da.DescribeAclsRequest
) -> da.DescribeAclsResponse:
    """Show the ACLs that the filter matches, by resource."""
    await trio.lowlevel.checkpoint()
    acls = asked.broker.cluster.security.acls
    if not asked.may(rights.DESCRIBE, rights.CLUSTER):
        return da.DescribeAclsResponse(error_code=_DENIED, error_message=None)
    if acls is None:
        text = "No Authorizer is configured."
        return da.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=text)
    wanted = AclFilter(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    by_resource: dict[tuple[int, int, str], list[Acl]] = {}
    for each in sorted(filter(wanted.matches, acls)):
        key = each.resource_type, each.pattern_type, each.name
        by_resource.setdefault(key, []).append(each)
    return da.DescribeAclsResponse(
        error_message=None,
        resources=[
            da.DescribeAclsResource(
                kind,
                name,
                pattern,
                [
                    da.AclDescription(each.principal, each.host, each.operation, each.permission)
                    for each in found
                ],
            )
            for (kind, pattern, name), found in by_resource.items()
        ],
    )


async def answer_describe_quotas(
    asked: Asked, request: dq.DescribeClientQuotasRequest
) -> dq.DescribeClientQuotasResponse:
    """Show all quotas."""
    await trio.lowlevel.checkpoint()
    if not asked.may(rights.DESCRIBE_CONFIGS, rights.CLUSTER):
        return dq.DescribeClientQuotasResponse(error_code=_DENIED, error_message=None, entries=None)
    entries = [
        dq.EntryData(
            [dq.EntityData(kind, name or None) for kind, name in entity.parts()],
            [dq.ValueData(key, value) for key, value in quotas.items()],
        )
        for entity, quotas in asked.broker.cluster.security.quotas.items()
    ]
    return dq.DescribeClientQuotasResponse(error_message=None, entries=entries)


async def answer_describe_users(
    asked: Asked, request: du.DescribeUserScramCredentialsRequest
) -> du.DescribeUserScramCredentialsResponse:
    """Show users with mechanisms and iterations; without names all.

    If a request without the right has null as its list of names, Kafka 4.3.1 fails to build the
    refusal, and never answers.
    """
    await trio.lowlevel.checkpoint()
    if not asked.may(rights.DESCRIBE, rights.CLUSTER):
        if request.users is None:
            await trio.sleep_forever()
        return du.DescribeUserScramCredentialsResponse(error_code=_DENIED, error_message=None)
    users = asked.broker.cluster.security.users
    names = [each.name for each in request.users or ()] or sorted(users)
    return du.DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            du.DescribeUserScramCredentialsResult(
                name,
                ErrorCode.NONE,
                None,
                [du.CredentialInfo(*each) for each in sorted(users[name].items())],
            )
            if name in users
            else du.DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, None)
            for name in names
        ],
    )
