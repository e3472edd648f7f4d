"""Finds ACLs that must stay in place of a source's ACLs that this cluster cannot have.  Pure.

If allow.everyone.if.no.acl.found is true, any ACL about a resource closes it.  At the source this
may be an ACL of a kind that this release does not know.  If an operator has closed the resource
here by another ACL, that ACL must stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from tidegate_coordination.security.acls import ANY_NAME, Acl, PatternType

from .acl_scope import allows_many, narrows

_Pattern: TypeAlias = tuple[int, int, str]
_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)


def stand_ins(
    impossible: Sequence[Acl], possible: Iterable[Acl], removable: Sequence[Acl]
) -> frozenset[Acl]:
    """Return the removable ACLs that must stay: without them a resource might become open.

    impossible, possible: ACLs of the source that this cluster cannot have, and those that it will
    have.  If an ACL that allows many names stays, the ACLs that deny some of these names stay, too.
    """
    if not impossible or not removable:
        return frozenset()
    closed = _Patterns(map(_pattern, possible))
    patterns = (each for each in map(_pattern, impossible) if not closed.cover(each))
    unclosed = _Patterns(patterns)
    kept = {each for each in removable if unclosed.meet(_pattern(each))}
    wide = {(each.resource_type, each.name) for each in kept if allows_many(each)}
    return frozenset(kept | {each for each in removable if narrows(each, wide)})


def _pattern(acl: Acl) -> _Pattern:
    """Return the pattern of an ACL: all names, if this release does not know the pattern's type."""
    if acl.pattern_type in (_LITERAL, _PREFIXED):
        return acl.resource_type, acl.pattern_type, acl.name
    return acl.resource_type, _LITERAL, ANY_NAME


class _Patterns:
    """Patterns of names, by type."""

    def __init__(self, patterns: Iterable[_Pattern]) -> None:
        self._known: Final = frozenset(patterns)
        self._names: Final = sorted((kind, name) for kind, _, name in self._known)

    def cover(self, pattern: _Pattern) -> bool:
        """Return whether one of the patterns includes all names of a pattern."""
        kind, _, name = pattern
        if pattern in self._known or (kind, _LITERAL, ANY_NAME) in self._known:
            return True
        if pattern == (kind, _LITERAL, ANY_NAME):
            return False
        return any((kind, _PREFIXED, name[:end]) in self._known for end in range(len(name) + 1))

    def meet(self, pattern: _Pattern) -> bool:
        """Return whether one of the patterns has a name in common with a pattern."""
        kind, type_, name = pattern
        if self.cover(pattern):
            return True
        is_all = type_ == _LITERAL and name == ANY_NAME
        if type_ == _LITERAL and not is_all:
            return False
        stem = "" if is_all else name
        at = bisect_left(self._names, (kind, stem))
        found = self._names[at : at + 1]
        return any(each[0] == kind and each[1].startswith(stem) for each in found)
