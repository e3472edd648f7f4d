"""Decides whether a principal may do something, as StandardAuthorizer of Kafka 4.3.1 does.

The ACLs of a principal and a host are joined into one number for each pattern, whose bits say which
operations are allowed and which are denied.  A decision looks at up to four groups of patterns:
those of the principal and of everyone, for its host and for any.  In each group it looks up the
literal name, the pattern of all names, and a prefix of each length that occurs.  So it takes as
long with a hundred thousand ACLs as with a hundred.

An operation is denied if one ACL denies it; otherwise it is allowed if one ACL allows it.  An ACL
that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE, and one that allows ALTER_CONFIGS
also allows DESCRIBE_CONFIGS.  An ACL that denies an operation denies no other one.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from .acls import ANY_NAME, EVERYONE, Acl, Operation, PatternType, Permission

_DENIED_FROM: Final = 16
_HARDCODE: Final = "hardcode"

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _bits(*operations: int) -> int:
    return sum(1 << each for each in {*operations, Operation.ALL})


_OPERATIONS: Final = range(max(Operation) + 1)
_SAID: Final = tuple(_bits(each) for each in _OPERATIONS)
_DENYING: Final = tuple(each << _DENIED_FROM for each in _SAID)
_ALLOWING: Final = tuple(_bits(each, *_IMPLIED_BY.get(each, ())) for each in Operation)

_Key: TypeAlias = tuple[int, str, str]


def _bit(acl: Acl) -> int:
    is_denied = acl.permission == Permission.DENY
    return 1 << (acl.operation + _DENIED_FROM if is_denied else acl.operation)


class _Patterns:
    """Numbers by pattern.  Patterns whose number is 0 are removed."""

    __slots__ = ("_counts", "lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, int] = {}
        self.prefixes: dict[str, int] = {}
        self.lengths: list[int] = []  # the lengths of the prefixes, rising
        self._counts: dict[int, int] = {}  # numbers of prefixes, by length

    def change(self, acl: Acl, by: int) -> bool:
        """Add to the number of the ACL's pattern.  Return whether any pattern is left."""
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        table = self.prefixes if is_prefix else self.literals
        before = table.get(acl.name, 0)
        if before + by:
            table[acl.name] = before + by
        else:
            del table[acl.name]
        if is_prefix and not before:
            self._count(len(acl.name), 1)
        elif is_prefix and not before + by:
            self._count(len(acl.name), -1)
        return bool(self.literals or self.prefixes)

    def _count(self, length: int, by: int) -> None:
        before = self._counts.get(length, 0)
        self._counts[length] = before + by
        if not before:
            insort(self.lengths, length)
        elif not before + by:
            self.lengths.remove(length)
            del self._counts[length]

    def of_literals(self, name: str) -> int:
        """Return the numbers of the literal patterns that stand for a name, joined by "or".

        Kafka's scan passes over the pattern of all names for a name that begins with it.
        """
        literals = self.literals
        found = literals.get(name, 0)
        if name[:1] != ANY_NAME:
            found |= literals.get(ANY_NAME, 0)
        return found

    def prefixes_of(self, name: str) -> list[str]:
        """Return the prefixes that the name begins with."""
        found: list[str] = []
        prefixes, size = self.prefixes, len(name)
        for length in self.lengths:
            if length > size:
                break
            prefix = name[:length]
            if prefix in prefixes:
                found.append(prefix)
        return found

    def of_prefixes(self, names: Iterable[str]) -> int:
        """Return the numbers of these prefixes, joined by "or"."""
        found, prefixes = 0, self.prefixes
        for each in names:
            found |= prefixes.get(each, 0)
        return found

    def of(self, name: str) -> int:
        """Return the numbers of all patterns that stand for a name, joined by "or"."""
        return self.of_literals(name) | self.of_prefixes(self.prefixes_of(name))


class AclIndex:
    """All ACLs, for decisions.

    Its owner must not add an ACL twice, nor remove a missing one.

    Hosts are compared as texts, as in Kafka 4.3.1.
    """

    def __init__(self) -> None:
        self._granted: Final[dict[_Key, _Patterns]] = {}
        self._anybodys: Final[dict[int, _Patterns]] = {}  # how many ACLs there are, by type

    def add(self, acl: Acl) -> None:
        """Add an ACL that is not in the index."""
        key = acl.resource_type, acl.principal, acl.host
        granted = self._granted.get(key)
        if granted is None:
            granted = self._granted[key] = _Patterns()
        granted.change(acl, _bit(acl))
        anybodys = self._anybodys.get(acl.resource_type)
        if anybodys is None:
            anybodys = self._anybodys[acl.resource_type] = _Patterns()
        anybodys.change(acl, 1)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is in the index."""
        key = acl.resource_type, acl.principal, acl.host
        if not self._granted[key].change(acl, -_bit(acl)):
            del self._granted[key]
        if not self._anybodys[acl.resource_type].change(acl, -1):
            del self._anybodys[acl.resource_type]

    def may(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool | None:
        """Return whether the ACLs allow it; None if no ACL of any principal is about the resource.

        principal: `type:name`.
        """
        anybodys = self._anybodys.get(resource_type)
        if anybodys is None:
            return None
        groups = list(self._groups(principal, host, resource_type))
        found = _joined(groups, anybodys, name)
        if found & _DENYING[operation]:
            return False
        if found & _ALLOWING[operation]:
            return True
        return False if found or anybodys.of(name) else None

    def may_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the ACLs allow the operation on any resource that may exist (KIP-679).

        No operation is implied here.  A denied name excludes only that literal name, a denied
        prefix excludes all names that begin with it, and a denial of all names excludes everything.
        """
        groups = list(self._groups(principal, host, resource_type))
        said, denied = _SAID[operation], _DENYING[operation]
        of_all = [each.literals.get(ANY_NAME, 0) for each in groups]
        if any(each & denied for each in of_all):
            return False
        if any(each & said for each in of_all):
            return True
        return any(
            not _is_denied(groups, name, denied, is_literal=is_literal)
            for each in groups
            for is_literal, table in ((True, each.literals), (False, each.prefixes))
            for name, bits in table.items()
            if bits & said
        )

    def _groups(self, principal: str, host: str, resource_type: int) -> Iterator[_Patterns]:
        for whose in (principal, EVERYONE):
            for where in (ANY_NAME, host):
                patterns = self._granted.get((resource_type, whose, where))
                if patterns is not None:
                    yield patterns


def _joined(groups: list[_Patterns], anybodys: _Patterns, name: str) -> int:
    """Return the numbers of all patterns of the groups that stand for a name, joined by "or"."""
    found = 0
    if sum(len(each.lengths) for each in groups) <= len(anybodys.lengths):
        for each in groups:
            found |= each.of(name)
        return found
    prefixes = anybodys.prefixes_of(name)  # once instead of in each group
    for each in groups:
        found |= each.of_literals(name) | each.of_prefixes(prefixes)
    return found


def _is_denied(groups: list[_Patterns], name: str, denied: int, *, is_literal: bool) -> bool:
    return any(
        each.of_prefixes(each.prefixes_of(name)) & denied
        or (is_literal and each.literals.get(name, 0) & denied)
        for each in groups
    )


class Authorizer:
    """The decisions of a cluster.

    super_users: `type:name`; they may do everything.  allows_everyone: if no ACL of any principal
    is about a resource, the resource is open to all (`allow.everyone.if.no.acl.found`).
    """

    def __init__(
        self, index: AclIndex, super_users: frozenset[str], *, allows_everyone: bool = False
    ) -> None:
        self._index: Final = index
        self._super_users: Final = super_users
        self._allows_everyone: Final = allows_everyone

    def may(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the principal may do the operation on the resource, from that host."""
        if principal in self._super_users:
            return True
        found = self._index.may(principal, host, operation, resource_type, name)
        return self._allows_everyone if found is None else found

    def may_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the principal may perform the operation on some resource of the type.

        Like Kafka, it first tries one name, which super users may always use.  In that try,
        operations are implied.
        """
        if self.may(principal, host, operation, resource_type, _HARDCODE):
            return True
        return self._index.may_any(principal, host, operation, resource_type)


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of the setting `super.users`, which semicolons separate.

    Raises:
      ValueError: one is not `type:name`.
    """
    found = [each.strip() for each in text.split(";")]
    for each in found:
        if each and ":" not in each:
            raise ValueError(f"super.users: {each} is not a principal; write User:{each}")
    return frozenset(found) - {""}
