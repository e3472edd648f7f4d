"""The simulator must find bugs of quotas that gateways share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.quotas.client_quotas import ClientQuotas
from tidegate_gateway.quotas.request_cost import RequestCost
from tidegate_gateway.quotas.sharing import ledger
from tidegate_gateway.quotas.sharing.demand import Demand
from tidegate_gateway.quotas.sharing.held_share import HeldShare
from tidegate_gateway.quotas.sharing.membership import Membership
from tidegate_gateway.quotas.usage import Buckets, RateUsage
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.security import quota_plan

SHARES, ABOVE = "shares above the quota", "above the quota"
BELOW, UNFAIR = "below the quota", "below the fair share"
OPERATIONS = 10  # the trial of quotas comes after these operations


def new_owner_grants_at_once(patch: pytest.MonkeyPatch) -> None:
    real = ledger._Quota.__init__
    patch.setattr(ledger._Quota, "__init__", lambda self, until_ms, epoch: real(self, 0, epoch))


def forgets_what_it_granted(patch: pytest.MonkeyPatch) -> None:
    real = ledger._share

    def share(granted: Any, *args: Any) -> float:
        return real({each: row._replace(most=0.0) for each, row in granted.items()}, *args)

    patch.setattr(ledger, "_share", share)


def keeps_a_share_through_silence(patch: pytest.MonkeyPatch) -> None:
    def per_second(self: Any, quota: float, live: int, now_ms: int) -> float:
        return quota / live if self._share is None else min(self._share, quota)

    patch.setattr(HeldShare, "per_second", per_second)


def keeps_what_it_releases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldShare, "release", lambda self, floor: None)


def overlooks_clients_that_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Demand, "note_waiting", lambda self, until_ms: None)


def owns_while_it_is_cut_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "owns", lambda self, key: self.owner(key) == self._me)


def believes_itself_alone_that_others_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_is_gone", lambda self, each: each in self.suspects)


def waits_for_the_lease_of_a_dead_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_is_gone", lambda self, each: False)


def shares_no_quota_of_consumers(patch: pytest.MonkeyPatch) -> None:
    real = ClientQuotas._rates

    def rates(self: ClientQuotas, resource: str) -> Any:
        return (
            Buckets(lambda _: RateUsage(self.windows))
            if resource == "Fetch"
            else real(self, resource)
        )

    patch.setattr(ClientQuotas, "_rates", rates)


def sends_what_is_throttled(patch: pytest.MonkeyPatch) -> None:
    real = RequestCost.fetch

    def fetch(self: RequestCost, size_bytes: int, now_ms: int) -> bool:
        real(self, size_bytes, now_ms)
        return True

    patch.setattr(RequestCost, "fetch", fetch)


def has_strikes(plan: FaultPlan) -> bool:
    return bool(plan.quotas.strikes)


def has_consumers(plan: FaultPlan) -> bool:
    return bool(plan.quotas.of_consumers)


@pytest.mark.parametrize("plant", [shares_no_quota_of_consumers, sends_what_is_throttled])
def test_planted_bug_of_a_quota_of_consumers_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_plan, "_SHARE", 1.0)
    must_be_found(plant, {ABOVE}, 1, monkeypatch, has_consumers, operations=OPERATIONS)


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (new_owner_grants_at_once, {SHARES, ABOVE}, 829),
        (forgets_what_it_granted, {SHARES, ABOVE}, 777),
        (keeps_a_share_through_silence, {SHARES, ABOVE}, 777),
        (keeps_what_it_releases, {SHARES}, 464),
        (overlooks_clients_that_wait, {BELOW, UNFAIR}, 269),
        (owns_while_it_is_cut_off, {SHARES, ABOVE}, 777),
        (believes_itself_alone_that_others_are_gone, {SHARES, ABOVE}, 139),
        (waits_for_the_lease_of_a_dead_owner, {BELOW}, 829),
    ],
)
def test_planted_bug_of_shared_quotas_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_plan, "ONE_WAY_SHARE", 0.0)
    monkeypatch.setattr(quota_plan, "CONSUMERS_SHARE", 0.0)
    must_be_found(plant, expected, first_seed, monkeypatch, has_strikes, operations=OPERATIONS)
