"""Changes of ACLs by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

from tidegate_coordination.security.acls import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
    known,
)

from ...topics.client_acts import Act


def acls_created(request: Any, response: Any) -> Act:
    """Return the ACLs that a request created."""
    done = zip(request.creations, response.results, strict=False)
    names = [
        f"{_named(Permission, each.permission_type)} {each.principal} from {each.host}"
        f" {_named(Operation, each.operation)} on {_named(ResourceType, each.resource_type)}"
        f" {each.resource_name} ({_named(PatternType, each.resource_pattern_type)})"
        for each, result in done
        if not result.error_code
    ]
    return Act("ACLs created", names, {})


def acls_deleted(request: Any, response: Any) -> Act:
    """Return the ACLs that a request deleted."""
    names = [
        f"{_named(Permission, each.permission_type)} {each.principal} from {each.host}"
        f" {_named(Operation, each.operation)} on {_named(ResourceType, each.resource_type)}"
        f" {each.resource_name} ({_named(PatternType, each.pattern_type)})"
        for result in response.filter_results
        for each in result.matching_acls
    ]
    return Act("ACLs deleted", names, {})


@cache  # a request may name 10,000 ACLs, and numbers have one byte
def _named(kind: type[IntEnum], number: int) -> str:
    return known(kind, number).name
