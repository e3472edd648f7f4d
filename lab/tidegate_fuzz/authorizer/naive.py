"""Kafka's rules of authorisation in the plainest form: look at every ACL, each time."""

from __future__ import annotations

from tidegate_coordination.security.acls import (
    ANY_NAME,
    EVERYONE,
    Acl,
    Operation,
    PatternType,
    Permission,
)

from .drawing import Case, Question

_DESCRIBES = (
    Operation.DESCRIBE,
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
)
_DESCRIBES_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)


def answer(case: Case, asked: Question) -> bool:
    """Return the right answer to a question."""
    if asked.principal in case.super_users:
        return True
    if asked.name is not None:
        return _of_name(case, asked, asked.name)
    return _of_name(case, asked, "hardcode") or _of_type(case, asked)


def _of_name(case: Case, asked: Question, name: str) -> bool:
    about = [
        each
        for each in case.acls
        if each.resource_type == asked.resource_type and _is_about(each, name)
    ]
    mine = [each for each in about if _is_mine(each, asked)]
    if any(each.permission == Permission.DENY and _says(each, asked) for each in mine):
        return False
    if any(each.permission == Permission.ALLOW and _implies(each, asked) for each in mine):
        return True
    return case.allows_everyone and not about


def _of_type(case: Case, asked: Question) -> bool:
    said = [
        each
        for each in case.acls
        if each.resource_type == asked.resource_type and _is_mine(each, asked)
        if _says(each, asked)
    ]
    denied = [each for each in said if each.permission == Permission.DENY]
    if any(_is_of_all(each) for each in denied):
        return False
    allowed = [each for each in said if each.permission == Permission.ALLOW]
    return any(
        _is_of_all(each) or not any(_takes_away(other, each) for other in denied)
        for each in allowed
    )


def _takes_away(denied: Acl, allowed: Acl) -> bool:
    if denied.pattern_type == PatternType.PREFIXED:
        return allowed.name.startswith(denied.name)
    return allowed.pattern_type == PatternType.LITERAL and allowed.name == denied.name


def _is_of_all(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.name == ANY_NAME


def _is_about(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name == name or (_is_of_all(acl) and not name.startswith(ANY_NAME))


def _is_mine(acl: Acl, asked: Question) -> bool:
    return acl.principal in (asked.principal, EVERYONE) and acl.host in (asked.host, ANY_NAME)


def _says(acl: Acl, asked: Question) -> bool:
    return acl.operation in (asked.operation, Operation.ALL)


def _implies(acl: Acl, asked: Question) -> bool:
    is_described = asked.operation == Operation.DESCRIBE and acl.operation in _DESCRIBES
    is_config = (
        asked.operation == Operation.DESCRIBE_CONFIGS and acl.operation in _DESCRIBES_CONFIGS
    )
    return _says(acl, asked) or is_described or is_config
