"""Compares the ACLs of a source with those that are here, and says what to change.  Pure.

All that the source has is carried, also what no client can use here: under
allow.everyone.if.no.acl.found a resource is closed by any ACL about it.  What denies comes before
what allows, and ACLs are removed after all others were added, first those that allow.  So there is
no moment at which a client may do what it may do neither at the source nor, before, here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidegate_coordination.events.security import AclsChanged
from tidegate_coordination.security.acls import (
    ANY_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.state.acls import AclTable

_USER: Final = "User:"


class Scope(NamedTuple):
    """What the ACLs to be carried are about; all ACLs if `is_all`.

    topics: names.  groups, transactional_ids: as the link has them, with `*` at the end of a
    prefix.
    """

    is_all: bool
    topics: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    def touches(self, acl: Acl) -> bool:
        """Return whether an ACL is about anything of the scope."""
        if self.is_all:
            return True
        if acl.resource_type == ResourceType.TOPIC:
            return _is_about(acl, self.topics)
        return any(_overlaps(acl, each) for each in self._names(acl.resource_type))

    def holds(self, acl: Acl) -> bool:
        """Return whether an ACL is about nothing else."""
        if self.is_all:
            return True
        if acl.resource_type == ResourceType.TOPIC:
            return acl.pattern_type == PatternType.LITERAL and acl.name in self.topics
        return any(_is_within(acl, each) for each in self._names(acl.resource_type))

    def selected(self, acls: Iterable[Acl]) -> list[Acl]:
        """Return the ACLs that touch the scope, sorted, with what the source denies of the others.

        An ACL that allows all names, or those with a prefix, allows more than the scope, and must
        not allow here what another ACL of the source denies.
        """
        known = sorted(set(acls))
        chosen = {each for each in known if self.touches(each)}
        wide = {(each.resource_type, each.name) for each in chosen if _allows_many(each)}
        return [each for each in known if each in chosen or _narrows(each, wide)]

    def _names(self, resource_type: int) -> tuple[str, ...]:
        if resource_type == ResourceType.GROUP:
            return self.groups
        return self.transactional_ids if resource_type == ResourceType.TRANSACTIONAL_ID else ()


def _is_about(acl: Acl, names: Iterable[str]) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return any(each.startswith(acl.name) for each in names)
    return acl.name in names or (acl.name == ANY_NAME and any(True for _ in names))


def _overlaps(acl: Acl, wanted: str) -> bool:
    """Return whether an ACL is about a name of the link, which may end with `*`."""
    stem, is_prefix = wanted.removesuffix(ANY_NAME), wanted.endswith(ANY_NAME)
    if acl.pattern_type == PatternType.PREFIXED:
        return stem.startswith(acl.name) or (is_prefix and acl.name.startswith(stem))
    return acl.name in (ANY_NAME, wanted) or (is_prefix and acl.name.startswith(stem))


def _allows_many(acl: Acl) -> bool:
    return _allows(acl) and (acl.pattern_type == PatternType.PREFIXED or acl.name == ANY_NAME)


def _narrows(acl: Acl, wide: Iterable[tuple[int, str]]) -> bool:
    """Return whether an ACL denies some of the names that begin so, or of all of them."""
    return acl.permission == Permission.DENY and any(
        acl.resource_type == resource_type
        and (name == ANY_NAME or acl.name.startswith(name) or name.startswith(acl.name))
        for resource_type, name in wide
    )


def _is_within(acl: Acl, wanted: str) -> bool:
    if wanted.endswith(ANY_NAME):
        is_every = acl.name == ANY_NAME and acl.pattern_type == PatternType.LITERAL
        return acl.name.startswith(wanted.removesuffix(ANY_NAME)) and not is_every
    return acl.pattern_type == PatternType.LITERAL and acl.name == wanted


class Noted(NamedTuple):
    """An ACL, and what a person has to know about it."""

    acl: Acl
    why: str


class AclPlan(NamedTuple):
    """What differs.

    equal: how many ACLs of the source are here.  added: in the order in which they are to be added.
    only_here: that the source does not have.  removed: those of them that are to be removed, in
    order.  not_carried: that cannot be here.  notes: about those that are carried or here already.
    """

    equal: int
    added: list[Acl]
    only_here: list[Acl]
    removed: list[Acl]
    not_carried: list[Noted]
    notes: list[Noted]

    @property
    def is_done(self) -> bool:
        """Return whether nothing is to be changed."""
        return not self.added and not self.removed


def acl_plan(
    theirs: Iterable[Acl],
    ours: AclTable,
    scope: Scope,
    own_topics: Sequence[str] = (),
    *,
    prunes: bool,
) -> AclPlan:
    """Compare.  own_topics: of this cluster that the link does not mirror, in order.

    prunes: remove what is only here.
    """
    wanted = scope.selected(theirs)
    possible = {each: None for each in wanted if each.is_possible}
    added = [each for each in possible if each not in ours]
    extra = [each for each in sorted(ours) if scope.touches(each) and each not in possible]
    notes = (Noted(each, why) for each in possible for why in _remarks(each, own_topics))
    return AclPlan(
        len(possible) - len(added),
        sorted(added, key=_allows),
        extra,
        sorted(filter(scope.holds, extra), key=_denies) if prunes else [],
        [Noted(each, _misfit(each)) for each in wanted if not each.is_possible],
        list(notes),
    )


def _allows(acl: Acl) -> bool:
    return acl.permission == Permission.ALLOW


def _denies(acl: Acl) -> bool:
    return acl.permission == Permission.DENY


def _misfit(acl: Acl) -> str:
    """Return why an ACL cannot be here."""
    if not ResourceType.TOPIC <= acl.resource_type <= ResourceType.USER:
        return f"this release knows no resources of type {acl.resource_type}"
    if not Operation.ALL <= acl.operation <= Operation.TWO_PHASE_COMMIT:
        return f"this release knows no operation {acl.operation}"
    return "this release does not understand its pattern, principal or permission"


def _remarks(acl: Acl, own_topics: Sequence[str]) -> Iterator[str]:
    """Yield why an ACL does not do here what it does at the source."""
    is_denial = acl.permission == Permission.DENY
    kind = acl.principal.partition(":")[0]
    if not acl.principal.startswith(_USER):
        loss = ": what it denies is open to them here" if is_denial else ""
        yield f"clients are principals of type User here, never {kind}{loss}"
    if "/" in acl.host:
        loss = ", so it denies nothing here" if is_denial else ""
        yield f"hosts are addresses here, and networks are not understood{loss}"
    if is_denial:
        return
    if acl.operation == Operation.CLUSTER_ACTION:
        yield "brokers need it among each other, and gateways do not"
    if acl.resource_type == ResourceType.TOPIC and _allows_many(acl):
        opened = [each for each in own_topics if _is_about(acl, (each,))]
        if opened:
            more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
            yield f"it also opens topics that are not of this link: {opened[0]}{more}"


class MissingAcls:
    """ACLs of a source about topics that are not here, by topic."""

    def __init__(self, theirs: Iterable[Acl], ours: AclTable) -> None:
        self._table: Final = AclTable()
        found = (each for each in dict.fromkeys(theirs) if each not in ours and each.is_possible)
        self._table.fold_changed(AclsChanged(tuple(found), ()), position=0)

    def count(self, topic: str) -> int:
        """Return how many stand for a topic."""
        wanted = AclFilter(ResourceType.TOPIC, PatternType.MATCH, topic)
        return len(self._table.matching(wanted))

    def topics_of(self, topics: Iterable[str]) -> list[str]:
        """Return those of the topics that any of them stands for."""
        return [each for each in topics if self.count(each)]
