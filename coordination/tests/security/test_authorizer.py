"""Decisions of the authorizer, rule by rule; lab/tests/fuzz compares it with a second one."""

from __future__ import annotations

import pytest

from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.authorizer import AclIndex, Authorizer, super_users_of

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
BOB, HOST = "User:bob", "10.0.0.1"


def acl(
    name: str = "orders",
    operation: int = READ,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    principal: str = BOB,
    host: str = "*",
    resource_type: int = TOPIC,
) -> Acl:
    return Acl(resource_type, pattern, name, principal, host, operation, permission)


def may(
    *rows: Acl,
    name: str = "orders",
    operation: int = READ,
    principal: str = BOB,
    resource_type: int = TOPIC,
) -> bool | None:
    index = AclIndex()
    for each in rows:
        index.add(each)
    return index.may(principal, HOST, operation, resource_type, name)


def may_any(*rows: Acl, operation: int = READ) -> bool:
    index = AclIndex()
    for each in rows:
        index.add(each)
    return Authorizer(index, frozenset()).may_any(BOB, HOST, operation, TOPIC)


@pytest.mark.parametrize(
    "row",
    [
        acl(),
        acl("*"),
        acl("ord", pattern=PREFIXED),
        acl("orders", pattern=PREFIXED),
        acl(principal="User:*"),
        acl(host=HOST),
        acl(operation=Operation.ALL),
    ],
)
def test_acls_that_allow(row: Acl) -> None:
    assert may(row) is True


@pytest.mark.parametrize(
    "row",
    [
        acl(operation=WRITE),
        acl(principal="User:eve"),
        acl(principal="Group:bob"),
        acl(principal="User:bo"),
        acl(host="10.0.0.2"),
        acl(host="10.0.0.0/8"),
        acl(permission=DENY),
    ],
)
def test_acls_about_the_resource_that_do_not_allow(row: Acl) -> None:
    assert may(row) is False


@pytest.mark.parametrize(
    "row",
    [
        acl("order"),
        acl("orders2"),
        acl("orders2", pattern=PREFIXED),
        acl("*", pattern=PREFIXED),
        acl(resource_type=GROUP),
    ],
)
def test_acls_about_other_resources(row: Acl) -> None:
    assert may(row) is None


@pytest.mark.parametrize(
    "denied",
    [
        acl(permission=DENY),
        acl("*", permission=DENY, principal="User:*"),
        acl("o", permission=DENY, pattern=PREFIXED, host=HOST),
        acl(operation=Operation.ALL, permission=DENY),
    ],
)
def test_what_one_denies_no_other_allows(denied: Acl) -> None:
    rows = [acl(operation=Operation.ALL), acl("*"), acl("orders", pattern=PREFIXED)]
    assert may(*rows, denied) is False
    assert may(denied, *rows) is False


@pytest.mark.parametrize(
    "operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, DESCRIBE, Operation.ALL]
)
def test_operations_that_allow_to_describe(operation: int) -> None:
    assert may(acl(operation=operation), operation=DESCRIBE) is True
    denied = acl(operation=operation, permission=DENY)
    implies = operation in (DESCRIBE, Operation.ALL)
    assert may(denied, acl("*", DESCRIBE), operation=DESCRIBE) is not implies


@pytest.mark.parametrize("operation", list(Operation)[2:])
def test_what_each_operation_allows(operation: Operation) -> None:
    allowed = {
        each for each in list(Operation)[2:] if may(acl(operation=operation), operation=each)
    }
    implied = {
        Operation.ALL: set(list(Operation)[2:]),
        READ: {DESCRIBE},
        WRITE: {DESCRIBE},
        Operation.DELETE: {DESCRIBE},
        Operation.ALTER: {DESCRIBE},
        Operation.ALTER_CONFIGS: {Operation.DESCRIBE_CONFIGS},
    }
    assert allowed == {operation} | implied.get(operation, set())


def test_all_names_are_not_those_that_begin_with_the_sign_of_all_names() -> None:
    """Kafka's authorizer decides the same; a group can have such a name."""
    assert may(acl("*"), name="*a") is None
    assert may(acl("*"), name="*") is True
    assert may(acl("*", pattern=PREFIXED), name="*a") is True


def test_a_removed_acl_decides_nothing() -> None:
    index = AclIndex()
    rows = [
        acl(),
        acl(permission=DENY),
        acl("ord", pattern=PREFIXED),
        acl("o", WRITE, pattern=PREFIXED),
        acl("p", WRITE, pattern=PREFIXED),
    ]
    for each in rows:
        index.add(each)
    index.remove(rows[1])
    assert index.may(BOB, HOST, READ, TOPIC, "orders") is True
    index.remove(rows[0])
    assert index.may(BOB, HOST, READ, TOPIC, "orders") is True
    index.remove(rows[2])
    assert index.may(BOB, HOST, READ, TOPIC, "orders") is False
    index.remove(rows[4])
    assert index.may(BOB, HOST, WRITE, TOPIC, "orders") is True
    index.remove(rows[3])
    assert index.may(BOB, HOST, WRITE, TOPIC, "orders") is None


def test_super_users_and_resources_without_acls() -> None:
    index = AclIndex()
    index.add(acl("*", Operation.ALL, DENY, principal="User:*"))
    strict = Authorizer(index, frozenset({"User:root"}))
    assert strict.may("User:root", HOST, READ, TOPIC, "orders")
    assert strict.may_any("User:root", HOST, READ, TOPIC)
    assert not strict.may("User:Root", HOST, READ, TOPIC, "orders")
    assert not strict.may(BOB, HOST, READ, GROUP, "orders")
    open_to_all = Authorizer(index, frozenset(), allows_everyone=True)
    assert open_to_all.may(BOB, HOST, READ, GROUP, "orders")
    assert not open_to_all.may(BOB, HOST, READ, TOPIC, "orders")


def test_any_resource() -> None:
    assert may_any(acl())
    assert may_any(acl("ord", pattern=PREFIXED))
    assert may_any(acl("*"))
    assert not may_any(acl(operation=WRITE))
    assert not may_any(acl(principal="User:eve"))
    assert not may_any(acl(), acl("*", permission=DENY))
    assert not may_any(acl("*"), acl("*", permission=DENY, host=HOST))


def test_a_denied_name_takes_that_name_and_a_denied_prefix_what_begins_with_it() -> None:
    denied = acl("orders", permission=DENY, principal="User:*")
    assert not may_any(acl(), denied)
    assert may_any(acl("orders", pattern=PREFIXED), denied)
    assert may_any(acl("orders2"), denied)
    prefix = acl("ord", permission=DENY, pattern=PREFIXED)
    assert not may_any(acl(), prefix)
    assert not may_any(acl("order", pattern=PREFIXED), acl("ord", pattern=PREFIXED), prefix)
    assert may_any(acl("or", pattern=PREFIXED), prefix)
    assert may_any(acl("*"), prefix)


def test_no_operation_is_implied_for_any_resource_but_the_one_that_is_tried_first() -> None:
    assert not may_any(acl(), operation=DESCRIBE)
    assert may_any(acl("hardcode"), operation=DESCRIBE)
    assert may_any(acl("hard", pattern=PREFIXED), operation=DESCRIBE)
    assert may_any(acl("*"), operation=DESCRIBE)


def test_the_setting_of_super_users() -> None:
    assert super_users_of(" User:a; User:CN=b,O=c:d ;;") == {"User:a", "User:CN=b,O=c:d"}
    assert super_users_of("") == frozenset()
    with pytest.raises(ValueError, match="write User:a"):
        super_users_of("a")
