"""The simulator must find bugs of draining, and nothing without a bug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.placement.groups import server
from tidegate_coordination.rules.gateways import ReleaseClaim
from tidegate_coordination.rules.proposal import Decided
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.groups.hosted_groups import HostedGroups
from tidegate_gateway.requests.groups import find_coordinator
from tidegate_gateway.requests.records import produce, produce_answers
from tidegate_gateway.zones.cluster_view import ListenerView
from tidegate_protocol.error_codes import ErrorCode
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.gateways.drain_plan import DRAIN_KIND
from tidegate_simulation.run import plan_of, simulate


def keeps_its_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HostedGroups, "step_aside", lambda self: None)


def releases_nothing_in_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleaseClaim, "decide", lambda self, view: Decided((), None))


def forgets_the_members_of_a_group_that_comes(patch: pytest.MonkeyPatch) -> None:
    def restore(record: Any, *, claim_epoch: int, settings: Any, now: float) -> ClassicGroup:
        machine = ClassicGroup(record.group_id, claim_epoch, settings)
        machine.generation = record.generation
        return machine

    patch.setattr(ClassicGroup, "restore", staticmethod(restore))


def rebalances_a_group_that_comes(patch: pytest.MonkeyPatch) -> None:
    real = HostedGroups._restore

    def restore(self: Any, group_id: str, epoch: int) -> Any:
        hosted = real(self, group_id, epoch)
        if hosted.machine.roster.members:
            hosted.machine.generation += 1
        return hosted

    patch.setattr(HostedGroups, "_restore", restore)


def names_who_drains(patch: pytest.MonkeyPatch) -> None:
    def found(state: ClusterState, group_id: str, among: Mapping[int, Gateway]) -> Gateway | None:
        leaving = [each for each in state.gateways.brokers() if each.draining]
        return leaving[0] if leaving else server(state, group_id, among)

    patch.setattr(find_coordinator, "server", found)


def serves_groups_whose_claim_is_gone(patch: pytest.MonkeyPatch) -> None:
    """A gateway keeps the group's machine, and does not check its claim."""

    def lose(self: Any, hosted: Any, refusal: Any) -> None:
        self.drop(hosted)
        self._claims.uncertain.add(hosted.machine.group_id)
        self.__dict__.setdefault("kept", {})[hosted.machine.group_id] = hosted

    real_host = HostedGroups.host

    async def host(self: Any, group_id: str, *, create: bool) -> Any:
        kept = self.__dict__.get("kept", {}).get(group_id)
        return kept or await real_host(self, group_id, create=create)

    patch.setattr(HostedGroups, "lose", lose)
    patch.setattr(HostedGroups, "host", host)
    patch.setattr(HostedGroups, "holds", lambda self, hosted: True)


def refuses_batches_for_good(patch: pytest.MonkeyPatch) -> None:
    real = produce_answers.refuse

    def refuse(answer: Any, code: ErrorCode, text: str) -> None:
        is_away = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        real(answer, ErrorCode.UNKNOWN_SERVER_ERROR if is_away else code, text)

    patch.setattr(produce, "refuse", refuse)


def forgets_a_broker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ListenerView, "brokers", property(lambda self: self.nodes[1:]))


def drains(plan: FaultPlan) -> bool:
    return DRAIN_KIND in plan.kinds


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (keeps_its_claims, {"claims kept"}, 40),
        (releases_nothing_in_the_log, {in_rules("has epoch"), "claims kept"}, 44),
        (forgets_the_members_of_a_group_that_comes, {"forced rejoin"}, 3),
        (rebalances_a_group_that_comes, {"forced rejoin"}, 3),
        (names_who_drains, {"wrong coordinator"}, 3),
        (serves_groups_whose_claim_is_gone, {"served without a claim"}, 31),
        (refuses_batches_for_good, {"fatal refusal"}, 4),
        (forgets_a_broker, {"wrong brokers"}, 3),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_draining_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, drains)


def test_seeds_with_operators_that_drain_find_no_violation() -> None:
    seeds = [seed for seed in range(1, 60) if drains(plan_of(seed))][:3]
    judged = 0
    for seed in seeds:
        report = simulate(seed, 60)
        assert not report.violations, report.replay
        judged += report.landed.counts.get("drain.not_here", 0)
    assert judged
