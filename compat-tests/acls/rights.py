"""The principals of the matrix and their ACLs.  Pure.

For each right, and for each of nine shapes of its ACLs (`SHAPES`), there are two users: one has all
other rights too, one has none.  Shapes about names are left out for the cluster, which has one
name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate_coordination.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC: Final = "acl-topic"
HIDDEN_TOPIC: Final = "hidden"
GROUP: Final = "acl-group"
TRANSACTIONAL_ID: Final = "acl-id"
PREFIX: Final = "acl-"
HERE: Final = "127.0.0.1"
ELSEWHERE: Final = "10.1.1.1"
ADMIN: Final = "admin"

_NAMES: Final = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}
_OPERATIONS: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
    " ALL",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.CLUSTER: "CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS"
    " ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE ALL",
}
SHAPES: Final = (
    "none",
    "literal",
    "prefix",
    "all names",
    "denied too",
    "a prefix is denied",
    "from elsewhere",
    "from here",
    "another name",
)
_FOR_ONE_NAME: Final = frozenset({"prefix", "all names", "a prefix is denied", "another name"})


class Right(NamedTuple):
    """A right that an API may need."""

    kind: ResourceType
    operation: Operation


class Principal(NamedTuple):
    """One user of the matrix.  name: without `User:`; also its password."""

    name: str
    about: str
    acls: tuple[Acl, ...]


def all_rights() -> list[Right]:
    """Return the rows of the matrix."""
    return [
        Right(kind, Operation[each])
        for kind, names in _OPERATIONS.items()
        for each in names.split()
    ]


def principals() -> Iterator[Principal]:
    """Yield all principals but the super user."""
    rows = all_rights()
    for number, right in enumerate(rows):
        for at, shape in enumerate(SHAPES):
            if right.kind is ResourceType.CLUSTER and shape in _FOR_ONE_NAME:
                continue
            for alone in (True, False):
                name = f"p{number}-{at}-{'alone' if alone else 'rest'}"
                own = tuple(_shaped(f"User:{name}", right, shape))
                rest = () if alone else tuple(_others(f"User:{name}", right, rows))
                about = f"{right.kind.name} {right.operation.name}: {shape}"
                about += "" if alone else ", with all others"
                yield Principal(name, about, tuple(dict.fromkeys(own + rest)))


def _shaped(principal: str, right: Right, shape: str) -> Iterator[Acl]:
    name = _NAMES[right.kind]
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED

    def acl(
        pattern: PatternType, of: str, host: str = "*", permission: Permission = Permission.ALLOW
    ) -> Acl:
        return Acl(right.kind, pattern, of, principal, host, right.operation, permission)

    match shape:
        case "literal":
            yield acl(literal, name)
        case "prefix":
            yield acl(prefixed, PREFIX)
        case "all names":
            yield acl(literal, "*")
        case "denied too":
            yield acl(literal, name)
            yield acl(literal, name, permission=Permission.DENY)
        case "a prefix is denied":
            yield acl(literal, "*")
            yield acl(prefixed, PREFIX, permission=Permission.DENY)
        case "from elsewhere":
            yield acl(literal, name, ELSEWHERE)
        case "from here":
            yield acl(literal, name, HERE)
        case "another name":
            yield acl(literal, "another")
        case _:
            pass


def _others(principal: str, right: Right, rows: list[Right]) -> Iterator[Acl]:
    for each in rows:
        is_same = each.kind is right.kind and (
            Operation.ALL in (each.operation, right.operation) or each == right
        )
        if not is_same:
            yield Acl(
                each.kind,
                PatternType.LITERAL,
                _NAMES[each.kind],
                principal,
                "*",
                each.operation,
                Permission.ALLOW,
            )
