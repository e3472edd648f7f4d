"""Compares the ACLs of a source with the ACLs here, and plans the changes.  Pure.

All ACLs of the source are carried, even those that no client can use here.  The reason: with
allow.everyone.if.no.acl.found, any ACL about a resource closes it for all other clients.  Denying
ACLs are added before allowing ones.  ACLs are removed after all are added, allowing ones first.
Some ACLs of the source cannot exist here; an ACL that may close the same resource instead is not
removed.  So at no moment do the carried ACLs let a client do more than it may do at the source or
could do here before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate_coordination.events.security import AclsChanged
from tidegate_coordination.security.acls import Acl, AclFilter, PatternType, ResourceType
from tidegate_coordination.state.security.acls import AclTable

from .acl_notes import Noted, OwnNames, Remarks, misfit
from .acl_scope import Scope, allows, denies
from .acl_stand_ins import stand_ins

_STAYS: Final = "it stays: it may close what an ACL of the source closes that cannot be here"


class AclPlan(NamedTuple):
    """The differences between the ACLs of source and cluster.

    equal: how many ACLs of the source are here.  added: ACLs to add, in order.  only_here: ACLs
    that the source does not have.  removed: ACLs to remove, in order.  not_carried: ACLs that this
    cluster cannot have.  notes: about ACLs that are carried or are here already, and about ACLs
    that are not removed in case they stand in for another.
    """

    equal: int
    added: list[Acl]
    only_here: list[Acl]
    removed: list[Acl]
    not_carried: list[Noted]
    notes: list[Noted]

    @property
    def is_done(self) -> bool:
        """Return whether there is nothing to change."""
        return not self.added and not self.removed

    def asks_as(self, other: AclPlan) -> bool:
        """Return whether a person who agreed to the other plan also agrees to this one.

        The texts of notes may count groups, which come and go.  So only the ACLs of the notes are
        compared.
        """
        return self[1:5] == other[1:5] and _noted(self) == _noted(other)


def _noted(plan: AclPlan) -> set[Acl]:
    return {each.acl for each in plan.notes}


def acl_plan(
    theirs: Iterable[Acl],
    ours: AclTable,
    scope: Scope,
    own: OwnNames,
    *,
    prunes: bool,
) -> AclPlan:
    """Compare both sides.  prunes: remove ACLs that only this cluster has."""
    wanted = scope.selected(theirs)
    possible = {each: None for each in wanted if each.is_possible}
    impossible = [each for each in wanted if not each.is_possible]
    added = [each for each in possible if each not in ours]
    extra = [each for each in sorted(ours) if scope.touches(each) and each not in possible]
    removed = list(filter(scope.holds, extra)) if prunes else []
    kept = stand_ins(impossible, possible, removed)
    remarks = Remarks(own)
    notes = [Noted(each, why) for each in possible for why in remarks.of(each)]
    return AclPlan(
        len(possible) - len(added),
        sorted(added, key=allows),
        extra,
        sorted((each for each in removed if each not in kept), key=denies),
        [Noted(each, misfit(each)) for each in impossible],
        notes + [Noted(each, _STAYS) for each in removed if each in kept],
    )


class MissingAcls:
    """ACLs of a source about topics that are not here, by topic."""

    def __init__(self, theirs: Iterable[Acl], ours: AclTable) -> None:
        self._table: Final = AclTable()
        found = (each for each in dict.fromkeys(theirs) if each not in ours and each.is_possible)
        self._table.fold_changed(AclsChanged(tuple(found), ()), position=0)

    def count(self, topic: str) -> int:
        """Return how many ACLs apply to a topic."""
        wanted = AclFilter(ResourceType.TOPIC, PatternType.MATCH, topic)
        return len(self._table.matching(wanted))

    def topics_of(self, topics: Iterable[str]) -> list[str]:
        """Return the topics to which at least one of the ACLs applies."""
        return [each for each in topics if self.count(each)]
