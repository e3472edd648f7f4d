"""Compares the client quotas of a source with those that are here, and changes these.

A quota of the source counts more than one of the same entity here.
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
    """A quota that differs.  change: what to do here.  before: its value here; None for none."""

    change: QuotaChange
    before: float | None


class NotCarried(NamedTuple):
    """A quota that cannot be here, and why."""

    quota: SourceQuota
    why: str


class QuotaPlan(NamedTuple):
    """The differences between the quotas of source and cluster.

    equal: how many quotas are the same here.  steps: what to set.  only_here: quotas that the
    source does not have, as changes that remove them.  prunes: whether these are to be made, too.
    """

    equal: int
    steps: list[QuotaStep]
    only_here: list[QuotaStep]
    not_carried: list[NotCarried]
    prunes: bool

    @property
    def changes(self) -> list[QuotaStep]:
        """Return all that is to be changed."""
        return self.steps + (self.only_here if self.prunes else [])

    def asks_as(self, other: QuotaPlan) -> bool:
        """Return whether a person who agreed to the other one agrees to this one."""
        return self.changes == other.changes and self.not_carried == other.not_carried


def quota_plan(theirs: Sequence[SourceQuota], ours: ClientQuotaTable, *, prunes: bool) -> QuotaPlan:
    """Compare."""
    steps: list[QuotaStep] = []
    not_carried: list[NotCarried] = []
    known = set[tuple[QuotaEntity, str]]()
    equal = 0
    for each in theirs:
        try:
            entity = each.own
            known.add((entity, each.key))  # also one that cannot be here is not "only here"
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
    """Return how many quotas were changed, and why not all; "" if all were.

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
