"""The simulator must find a bug of gateways that hand proposals over after lost races."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import must_be_found
from tidegate_coordination.coordinator.coordinator import Waiting
from tidegate_coordination.forwarding.forwarder import ForwardingCoordinator
from tidegate_simulation.plans.zone_plan import lends

FIRST_SEED = 33  # a seed that finds the bug, so that the test is short


def appends_what_it_handed_over(patch: pytest.MonkeyPatch) -> None:
    real = ForwardingCoordinator._note_lost_race

    def note(self: Any) -> None:
        before = list(self._queue)
        real(self)
        gone = [each for each in before if each not in self._queue]
        self._queue.extend(Waiting(each.proposal, lambda _: None, lambda _: None) for each in gone)

    patch.setattr(ForwardingCoordinator, "_note_lost_race", note)


def test_a_planted_bug_of_handing_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(
        appends_what_it_handed_over,
        {"no offset", "duplicate"},
        FIRST_SEED,
        monkeypatch,
        is_concerned_seed=lends,
    )
