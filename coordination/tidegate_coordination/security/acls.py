"""ACLs and filters of them, with Kafka's numbers (KIP-11, KIP-290).

An ACL is its own key: no two ACLs have the same fields, and an ACL has no other identity.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar

import msgspec

ANY_NAME: Final = "*"
"""As the name of a literal pattern: all resources of the type.  As a host: all hosts."""
EVERYONE: Final = "User:*"
"""As a principal, it stands for all principals of every type."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


_NUMBERS_BYTES: Final = 16  # of an ACL, with the lengths of its texts


class ResourceType(IntEnum):
    """The type of resource that an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names resources.  ANY and MATCH are for filters only; see AclFilter."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource, with Kafka's number."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


Number = TypeVar("Number", bound=IntEnum)


def known(kind: type[Number], number: int) -> Number:
    """Return the member with a number from the wire; UNKNOWN (0) if Kafka has none."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


class Acl(msgspec.Struct, array_like=True, frozen=True, gc=False, order=True):
    """One ACL, as events and snapshots hold it.

    name: the resource's name, or a prefix of it; see PatternType.  principal: `type:name`.
    host: an address as text, or ANY_NAME.
    """

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def is_possible(self) -> bool:
        """Return whether Kafka would store it.  Operations are not checked against the type."""
        return (
            ResourceType.TOPIC <= self.resource_type <= ResourceType.USER
            and self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and Operation.ALL <= self.operation <= Operation.TWO_PHASE_COMMIT
            and self.permission in (Permission.DENY, Permission.ALLOW)
            and self.name != ""
            and ":" in self.principal
        )

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes it takes in an entry of the log."""
        texts = (self.name, self.principal, self.host)
        return _NUMBERS_BYTES + sum(len(each.encode()) for each in texts)


class AclFilter(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Which ACLs to show or to delete.  None and the numbers of ANY match everything.

    With MATCH, `name` is the name of a resource, and the filter matches the ACLs that apply to it:
    literal ACLs, ACLs of all names, and ACLs with a prefix of the name.
    """

    resource_type: int = ResourceType.ANY
    pattern_type: int = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    @classmethod
    def of_one(cls, acl: Acl) -> AclFilter:
        """Return the filter that matches this ACL alone."""
        return cls(
            acl.resource_type,
            acl.pattern_type,
            acl.name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )

    @property
    def one(self) -> Acl | None:
        """Return the only ACL that it can match; None if there may be others."""
        if self.name is None or self.principal is None or self.host is None:
            return None
        one = Acl(
            self.resource_type,
            self.pattern_type,
            self.name,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )
        return one if one.is_possible else None

    @property
    def has_one_name(self) -> bool:
        """Return whether all ACLs that it matches have `name`."""
        return self.name is not None and self.pattern_type != PatternType.MATCH

    def matches(self, acl: Acl) -> bool:
        """Return whether an ACL is one of those."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type != PatternType.MATCH:
            is_type = self.pattern_type in (PatternType.ANY, acl.pattern_type)
            return is_type and self.name in (None, acl.name)
        if self.name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANY_NAME)
