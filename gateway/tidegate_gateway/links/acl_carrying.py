"""Changes the ACLs of this cluster as a plan says, in entries of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.acls import (
    SECURITY_NOT_YET,
    AclRefusal,
    CreateAcls,
    DeleteAcls,
)
from tidegate_coordination.rules.parts import parts
from tidegate_coordination.security.acls import Acl, AclFilter

from .acl_plan import AclPlan

# Each step removes as many as an entry holds; more steps than ACLs mean that others add them again.
_MAX_STEPS: Final = 100
ADDED_AGAIN: Final = "Others add ACLs again while they are removed."
"""Why not all were removed, after so many steps."""


class Carried(NamedTuple):
    """How many ACLs were added and removed.  problem: why not all; "" if all were."""

    added: int
    removed: int
    problem: str = ""


async def carry_acls(coordinator: Coordinator, plan: AclPlan) -> Carried:
    """Add and remove ACLs in the order of the plan; stop at the first that fails.

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
            count, problem = await _removed(coordinator, part)
            removed += count
            if problem:
                return Carried(added, removed, problem)
    except ProposalFailed as failure:
        return Carried(added, removed, str(failure))
    return Carried(added, removed)


async def _removed(coordinator: Coordinator, acls: Sequence[Acl]) -> tuple[int, str]:
    """Return how many were removed, and why not all; "" if all were."""
    wanted, count = DeleteAcls([AclFilter.of_one(each) for each in acls]), 0
    for _ in range(_MAX_STEPS):
        answer = await coordinator.propose(wanted)
        if isinstance(answer, AclRefusal):
            return count, _words(answer)
        count += len(answer.acls)
        if answer.is_all:
            return count, ""
    return count, ADDED_AGAIN


def _words(refusal: AclRefusal) -> str:
    return SECURITY_NOT_YET if refusal is AclRefusal.NOT_YET else refusal.value
