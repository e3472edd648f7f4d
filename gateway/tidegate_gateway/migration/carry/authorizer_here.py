"""Asks a gateway whether it has an authorizer: that is a setting of each gateway."""

from __future__ import annotations

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.security.acls import Operation, PatternType, Permission
from tidegate_coordination.security.acls import ResourceType as Type
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def has_authorizer(gateway: ClassicCluster) -> bool | None:
    """Return whether a gateway has an authorizer; None if it does not say.

    If the client lacks the right to ask, a gateway with an authorizer refuses; this is an answer,
    too.
    """
    request = DescribeAclsRequest(  # a filter that matches no ACL
        Type.ANY, "", PatternType.ANY, "", "", Operation.ANY, Permission.ANY
    )
    try:
        answer: DescribeAclsResponse = await gateway.call_any("DescribeAcls", request)
    except ClassicError:
        return None
    if answer.error_code in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return True
    return False if answer.error_code == ErrorCode.SECURITY_DISABLED else None
