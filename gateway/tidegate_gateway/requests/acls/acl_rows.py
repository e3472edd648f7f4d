"""ACLs and filters on the wire, and Kafka's texts about invalid ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate_coordination.rules.security.acls import MAX_REMOVED, SECURITY_NOT_YET, AclRefusal
from tidegate_coordination.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    known,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_acls import AclCreation
from tidegate_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
from tidegate_protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
)

MAX_MESSAGE_CHARACTERS: Final = 1000
"""A text may quote the longest string, and must itself fit into one."""
_ONE_OF_MANY: Final = "Unable to perform excessively large batch operation."
_REFUSALS: Final = {
    AclRefusal.NOT_YET: (ErrorCode.UNSUPPORTED_VERSION, SECURITY_NOT_YET),
    AclRefusal.IMPOSSIBLE: (ErrorCode.INVALID_REQUEST, "An ACL has an impossible value."),
    AclRefusal.TOO_LARGE: (ErrorCode.POLICY_VIOLATION, _ONE_OF_MANY),
    AclRefusal.TOO_MANY: (
        ErrorCode.INVALID_REQUEST,
        f"Cannot remove more than {MAX_REMOVED} acls in a single delete operation.",
    ),
    AclRefusal.TOO_MUCH_WORK: (
        ErrorCode.INVALID_REQUEST,
        "The filters would look at too many ACLs: name the resources, or ask with fewer filters.",
    ),
}


def error_of(refusal: AclRefusal) -> tuple[ErrorCode, str]:
    """Return the error code and text for a client."""
    return _REFUSALS[refusal]


def acl_of(row: AclCreation) -> Acl:
    """Return the ACL that a client wants; misfit() says whether it is valid."""
    return Acl(
        row.resource_type,
        row.resource_pattern_type,
        row.resource_name,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )


def misfit(acl: Acl) -> str:
    """Return why an ACL is invalid, in Kafka's words and order; "" if it is valid."""
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    resource_type = known(ResourceType, acl.resource_type)
    if resource_type < ResourceType.TOPIC:
        return f"Invalid resourceType {resource_type.name}"
    pattern_type = known(PatternType, acl.pattern_type)
    if pattern_type < PatternType.LITERAL:
        return f"Invalid patternType {pattern_type.name}"
    operation = known(Operation, acl.operation)
    if operation < Operation.ALL:
        return f"Invalid operation {operation.name}"
    permission = known(Permission, acl.permission)
    if permission < Permission.DENY:
        return f"Invalid permissionType {permission.name}"
    if ":" not in acl.principal:
        text = (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the"
            " principal type from the principal name)"
        )
        return text[:MAX_MESSAGE_CHARACTERS]
    return ""


def filter_of(row: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Return the filter that a client wants; unknown_part() says whether it is valid."""
    return AclFilter(
        row.resource_type_filter,
        row.pattern_type_filter,
        row.resource_name_filter,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )


def has_zero(wanted: AclFilter) -> bool:
    """Return whether a filter has a 0 (UNKNOWN); other unknown numbers just match nothing."""
    types = wanted.resource_type, wanted.pattern_type
    return 0 in (*types, wanted.operation, wanted.permission)


def unknown_part(wanted: AclFilter) -> str:
    """Return which part of a filter has a number that Kafka does not know, in its words; or ""."""
    if not (known(ResourceType, wanted.resource_type) and known(PatternType, wanted.pattern_type)):
        return "Unknown patternFilter."
    if not (known(Operation, wanted.operation) and known(Permission, wanted.permission)):
        return "Unknown entryFilter."
    return ""


def removed_row(acl: Acl) -> DeleteAclsMatchingAcl:
    """Return a removed ACL for a client."""
    return DeleteAclsMatchingAcl(
        ErrorCode.NONE,
        None,
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


class Resources:
    """ACLs for DescribeAcls, which lists them by resource."""

    def __init__(self) -> None:
        self._by_pattern: dict[tuple[int, int, str], DescribeAclsResource] = {}

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs."""
        for each in acls:
            key = each.resource_type, each.pattern_type, each.name
            resource = self._by_pattern.get(key)
            if resource is None:
                resource = DescribeAclsResource(each.resource_type, each.name, each.pattern_type)
                self._by_pattern[key] = resource
            resource.acls.append(
                AclDescription(each.principal, each.host, each.operation, each.permission)
            )

    @property
    def rows(self) -> list[DescribeAclsResource]:
        """Return all rows so far."""
        return list(self._by_pattern.values())
