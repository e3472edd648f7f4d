"""Compares the ACLs of a source with the ACLs here, and plans the changes.  Pure.

All that the source has is carried, also what no client can use here: under
allow.everyone.if.no.acl.found a resource is closed by any ACL about it.  Denials are added before
allowing ACLs.  ACLs are removed after all are added, allowing ones first.  None is removed that may
close what an ACL closes that cannot be here.  So there is no moment at which ACLs that were carried
let a client do what it may do neither at the source nor, before, here.
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

    def asks_as(self, other: AclPlan) -> bool:
        """Return whether a person who agreed to the other one agrees to this one.

        What notes say may count groups that come and go; only which ACLs they are about matters.
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
    """Compare both.  prunes: remove ACLs that only this cluster has."""
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
        """Return how many stand for a topic."""
        wanted = AclFilter(ResourceType.TOPIC, PatternType.MATCH, topic)
        return len(self._table.matching(wanted))

    def topics_of(self, topics: Iterable[str]) -> list[str]:
        """Return those of the topics that any of them stands for."""
        return [each for each in topics if self.count(each)]
