"""Changes the ACLs of this cluster according to a plan, in entries of bounded size."""

from __future__ import annotations

from typing import NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.security.acls import (
    SECURITY_NOT_YET,
    AclRefusal,
    CreateAcls,
    DeleteAcls,
)
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.security.acls import AclFilter

from .acl_plan import AclPlan


class Carried(NamedTuple):
    """How many ACLs were added and removed.  problem: why some were not; "" if all were."""

    added: int
    removed: int
    problem: str = ""


async def carry_acls(coordinator: Coordinator, plan: AclPlan) -> Carried:
    """Add and remove ACLs in the order of the plan; stop at the first failure.

    Raises:
      CoordinatorUnavailable: the log does not answer; a part may have changed.
    """
    added = removed = 0
    try:
        for part in parts(plan.added, lambda each: each.size_bytes):
            refusal = await coordinator.propose(CreateAcls(part))
            if refusal is not None:
                return Carried(added, removed, _words(refusal))
            added += len(part)
        for part in parts(plan.removed, lambda each: 2 * each.size_bytes):
            answer = await coordinator.propose(
                DeleteAcls([AclFilter.of_one(each) for each in part])
            )
            if isinstance(answer, AclRefusal):
                return Carried(added, removed, _words(answer))
            assert answer.is_all, "a part fits an entry"
            removed += len(answer.acls)
    except ProposalFailed as failure:
        return Carried(added, removed, str(failure))
    return Carried(added, removed)


def _words(refusal: AclRefusal) -> str:
    return SECURITY_NOT_YET if refusal is AclRefusal.NOT_YET else refusal.value
