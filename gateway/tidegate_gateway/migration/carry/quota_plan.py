"""Compares the client quotas of a source with those here, and changes those here.

If both sides have a quota of an entity, the source's value is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.security.acls import SECURITY_NOT_YET
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.quotas import AlterClientQuotas, QuotaRefusal, size_bytes
from tidegate_coordination.security.quota_checks import QuotaRefused, check_value
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.state.security.quotas import ClientQuotaTable

from .source_security import SourceQuota


class QuotaStep(NamedTuple):
    """A quota that differs.  change: to make here.  before: the value here, or None."""

    change: QuotaChange
    before: float | None


class NotCarried(NamedTuple):
    """A quota that this cluster cannot have, and why."""

    quota: SourceQuota
    why: str


class QuotaPlan(NamedTuple):
    """The differences between the quotas of source and cluster.

    equal: how many quotas are the same here.  steps: what to set.  only_here: quotas that the
    source does not have, as changes that remove them.  prunes: whether to make these changes, too.
    """

    equal: int
    steps: list[QuotaStep]
    only_here: list[QuotaStep]
    not_carried: list[NotCarried]
    prunes: bool

    @property
    def changes(self) -> list[QuotaStep]:
        """Return all changes to make."""
        return self.steps + (self.only_here if self.prunes else [])

    def asks_as(self, other: QuotaPlan) -> bool:
        """Return whether a person who agreed to the other plan also agrees to this one."""
        return self.changes == other.changes and self.not_carried == other.not_carried


def quota_plan(theirs: Sequence[SourceQuota], ours: ClientQuotaTable, *, prunes: bool) -> QuotaPlan:
    """Compare both sides."""
    steps: list[QuotaStep] = []
    not_carried: list[NotCarried] = []
    known = set[tuple[QuotaEntity, str]]()
    equal = 0
    for each in theirs:
        try:
            entity = each.own
            # before the check: a quota that cannot be carried is not "only here" either
            known.add((entity, each.key))
            check_value(entity, each.key, each.value)
        except QuotaRefused as refused:
            not_carried.append(NotCarried(each, str(refused)))
            continue
        before = ours.get(entity, each.key)
        if before == each.value:
            equal += 1
        else:
            steps.append(QuotaStep(QuotaChange(entity, each.key, each.value), before))
    only_here = [
        QuotaStep(QuotaChange(entity, key, None), value)
        for entity, quotas in ours
        for key, value in quotas.items()
        if (entity, key) not in known
    ]
    return QuotaPlan(equal, steps, only_here, not_carried, prunes)


async def carry_quotas(coordinator: Coordinator, plan: QuotaPlan) -> tuple[int, str]:
    """Change the quotas; return how many were changed, and why not all, or "".

    Raises:
      CoordinatorUnavailable: the log does not answer; a part may have changed.
    """
    done = 0
    for part in parts([each.change for each in plan.changes], size_bytes):
        try:
            refusal = await coordinator.propose(AlterClientQuotas(part))
        except ProposalFailed as failure:
            return done, str(failure)
        if refusal is not None:
            is_early = refusal is QuotaRefusal.NOT_YET
            return done, SECURITY_NOT_YET if is_early else refusal.value
        done += len(part)
    return done, ""
