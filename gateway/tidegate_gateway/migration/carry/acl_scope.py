"""Finds the ACLs that are about the names of a link.  Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate_coordination.security.acls import (
    ANY_NAME,
    Acl,
    PatternType,
    Permission,
    ResourceType,
)

_LAST: Final = "\U0010ffff"


class Names:
    """Names that match an ACL are found in a time that hardly depends on the number of names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: Final = sorted(set(names))

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self._names, name)
        return at < len(self._names) and self._names[at] == name

    def about(self, acl: Acl) -> tuple[str, int]:
        """Return the first name that an ACL is about, or "", and how many such names there are."""
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        if acl.name == ANY_NAME and not is_prefix:
            start, end = 0, len(self._names)
        else:
            start = bisect_left(self._names, acl.name)
            last = acl.name + _LAST if is_prefix else acl.name + "\0"
            end = bisect_left(self._names, last)
        return (self._names[start], end - start) if end > start else ("", 0)


class Scope(NamedTuple):
    """The names whose ACLs are carried; all ACLs if `is_all`.

    groups, transactional_ids: the link's; a prefix ends with `*`.
    """

    is_all: bool
    topics: Names = Names()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    def touches(self, acl: Acl) -> bool:
        """Return whether an ACL is about at least one name of the scope."""
        if self.is_all:
            return True
        if acl.resource_type == ResourceType.TOPIC:
            return self.topics.about(acl)[1] > 0
        return any(_overlaps(acl, each) for each in self._names(acl.resource_type))

    def holds(self, acl: Acl) -> bool:
        """Return whether an ACL is about names of the scope only."""
        if self.is_all:
            return True
        if acl.resource_type == ResourceType.TOPIC:
            return acl.pattern_type == PatternType.LITERAL and acl.name in self.topics
        return any(is_within(acl, each) for each in self._names(acl.resource_type))

    def selected(self, acls: Iterable[Acl]) -> list[Acl]:
        """Return, sorted, the ACLs that touch the scope, and denying ACLs that limit these.

        An ACL that allows all names, or a prefix, may allow more than the scope.  It must not allow
        here what another ACL of the source denies.
        """
        known = sorted(set(acls))
        chosen = {each for each in known if self.touches(each)}
        wide = {(each.resource_type, each.name) for each in chosen if allows_many(each)}
        return [each for each in known if each in chosen or narrows(each, wide)]

    def _names(self, resource_type: int) -> tuple[str, ...]:
        if resource_type == ResourceType.GROUP:
            return self.groups
        return self.transactional_ids if resource_type == ResourceType.TRANSACTIONAL_ID else ()


def _overlaps(acl: Acl, wanted: str) -> bool:
    """Return whether an ACL is about a name that the link has.

    wanted: a name of the link; with `*` at its end, all names with this prefix.
    """
    stem, is_prefix = wanted.removesuffix(ANY_NAME), wanted.endswith(ANY_NAME)
    if acl.pattern_type == PatternType.PREFIXED:
        return stem.startswith(acl.name) or (is_prefix and acl.name.startswith(stem))
    return acl.name in (ANY_NAME, wanted) or (is_prefix and acl.name.startswith(stem))


def allows_many(acl: Acl) -> bool:
    """Return whether an ACL allows an operation on all names, or on names with a prefix."""
    return allows(acl) and (acl.pattern_type == PatternType.PREFIXED or acl.name == ANY_NAME)


def narrows(acl: Acl, wide: Iterable[tuple[int, str]]) -> bool:
    """Return whether an ACL denies an operation on some names of the wide patterns."""
    return denies(acl) and any(
        acl.resource_type == resource_type
        and (name == ANY_NAME or acl.name.startswith(name) or name.startswith(acl.name))
        for resource_type, name in wide
    )


def is_within(acl: Acl, wanted: str) -> bool:
    """Return whether an ACL is only about a name of the link, or a prefix that ends with `*`."""
    if wanted.endswith(ANY_NAME):
        is_every = acl.name == ANY_NAME and acl.pattern_type == PatternType.LITERAL
        return acl.name.startswith(wanted.removesuffix(ANY_NAME)) and not is_every
    return acl.pattern_type == PatternType.LITERAL and acl.name == wanted


def allows(acl: Acl) -> bool:
    """Return whether an ACL allows an operation."""
    return acl.permission == Permission.ALLOW


def denies(acl: Acl) -> bool:
    """Return whether an ACL denies an operation."""
    return acl.permission == Permission.DENY
