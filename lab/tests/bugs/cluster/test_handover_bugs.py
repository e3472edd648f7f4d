"""The simulator must find a bug of gateways that hand proposals over after lost appends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import must_be_found
from tidegate_coordination.coordinator.waiting import Waiting
from tidegate_coordination.forwarding.own_proposals import OwnProposals
from tidegate_simulation.plans.gateways.zone_plan import lends

FIRST_SEED = 33  # a seed that finds the bug


def appends_what_it_handed_over(patch: pytest.MonkeyPatch) -> None:
    real = OwnProposals.hand_over

    def hand_over(self: Any) -> None:
        before = list(self._queue._waiting)
        real(self)
        for each in before:
            if each not in self._queue._waiting:
                self._queue.add(Waiting(each.proposal, lambda _: None, lambda _: None))

    patch.setattr(OwnProposals, "hand_over", hand_over)


def test_a_planted_bug_of_handing_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(
        appends_what_it_handed_over,
        {"no offset", "duplicate"},
        FIRST_SEED,
        monkeypatch,
        is_concerned_seed=lends,
    )
