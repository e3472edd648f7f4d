"""The simulator must find bugs of the authorizer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.rules.security.permitted import Permitted
from tidegate_coordination.security import authorizer
from tidegate_gateway.requests.records.fetch_answer import Look
from tidegate_gateway.requests.records.produce_fast_path import PlainProducePath
from tidegate_gateway.security.authority import Authority, ClientRights
from tidegate_simulation.plans.faults import FaultPlan

WROTE, READ, REFUSED = (
    "a denied client wrote",
    "a denied client read",
    "an allowed client was refused",
)


def keeps_decisions_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientRights, "_forget", lambda self: None)


def keeps_routes_of_produce(patch: pytest.MonkeyPatch) -> None:
    def versions(self: Any) -> tuple[int, int, int]:
        return self._topics.version, self._configs.version, 0

    patch.setattr(PlainProducePath, "_versions", property(versions))


def overlooks_prefixes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(authorizer._Patterns, "of_prefixes", lambda self, name: 0)


def reads_for_everyone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Look, "_may_read", lambda self, wanted: True)


def takes_all_hosts_for_one(patch: pytest.MonkeyPatch) -> None:
    real = Authority._of

    def of(self: Any, principal: str, host: str) -> Any:
        for (known, _), rights in self._clients.items():
            if known == principal:
                return rights
        return real(self, principal, host)

    patch.setattr(Authority, "_of", of)


def forgets_removals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(authorizer.AclIndex, "remove", lambda self, acl: None)


def decides_by_former_rights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Permitted, "decide", lambda self, view: self.proposal.decide(view))


def has_admin(plan: FaultPlan) -> bool:
    return plan.rights.has_admin


def has_rights(plan: FaultPlan) -> bool:
    return plan.rights.is_on


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (keeps_decisions_for_ever, {WROTE, READ, REFUSED}, 13),
        (keeps_routes_of_produce, {WROTE}, 367),
        (overlooks_prefixes, {WROTE, READ}, 26),
        (reads_for_everyone, {READ}, 13),
        (takes_all_hosts_for_one, {WROTE, READ, REFUSED}, 8),
        (forgets_removals, {REFUSED}, 8),
    ],
)
def test_planted_bug_of_rights_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, has_rights)


def test_a_change_by_a_former_administrator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {in_rules("rights of"), "a denied client set a config"}
    must_be_found(decides_by_former_rights, expected, 254, monkeypatch, has_admin)
