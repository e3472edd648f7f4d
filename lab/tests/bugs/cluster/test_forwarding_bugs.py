"""The simulator must find bugs of forwarding."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.forwarding.asking import Asker
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.folds.cluster import ClusterFolds
from tidegate_coordination.state.writers.proposals import ProposalTable
from tidegate_simulation.plans.faults import FaultPlan


def forgets_first_answers(patch: pytest.MonkeyPatch) -> None:
    """A gateway finds no earlier answer to a proposal, and the fold misses a second one."""
    real = ProposalTable.fold_proposed

    def fold_proposed(self: Any, event: Any) -> None:
        author = self._authors.get(event.incarnation)
        if author is not None:
            author.answers.pop(event.number, None)
        real(self, event)

    patch.setattr(ProposalTable, "fold_proposed", fold_proposed)
    patch.setattr(ProposalTable, "answer", lambda self, incarnation, number: None)


def decides_what_was_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProposalTable, "is_acknowledged", lambda self, incarnation, number: False)


def decides_in_its_own_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(View, "of_author", lambda self, author: self)


def asks_again_under_another_number(patch: pytest.MonkeyPatch) -> None:
    real = Asker._suspect

    async def suspect(self: Any, found: Any) -> None:
        for outgoing in self._outbox.asking:
            self._outbox.end(outgoing.number)
            outgoing.number = self._outbox.take_number()
        await real(self, found)

    patch.setattr(Asker, "_suspect", suspect)


def takes_silence_for_a_refusal(patch: pytest.MonkeyPatch) -> None:
    real = Asker._suspect

    async def suspect(self: Any, found: Any) -> None:
        for outgoing in self._outbox.hand_back():
            self._outbox.end(outgoing.number)
            outgoing.waiting.fail(ProposalFailed("planted"))
        await real(self, found)

    patch.setattr(Asker, "_suspect", suspect)


def does_not_count_as_alive(patch: pytest.MonkeyPatch) -> None:
    """A gateway that only forwards sends no sign of life."""

    def fold_proposed(self: Any, event: Any) -> None:
        self._state.proposals.fold_proposed(event)

    patch.setattr(ClusterFolds, "fold_proposed", fold_proposed)


def forwards(plan: FaultPlan) -> bool:
    return plan.forwarding.is_on


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (forgets_first_answers, {in_rules("is answered"), "no offset"}, 512),
        (
            decides_what_was_acknowledged,
            {in_rules("cannot be folded"), "gateway died", "state broken"},
            201,
        ),
        (decides_in_its_own_name, {in_rules("which lives"), "invariant 7"}, 83),
        (asks_again_under_another_number, {"no offset"}, 162),
        (takes_silence_for_a_refusal, {"failed write"}, 162),
        (does_not_count_as_alive, {in_rules("expired too soon"), "expired too soon"}, 87),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_forwarding_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, forwards)
