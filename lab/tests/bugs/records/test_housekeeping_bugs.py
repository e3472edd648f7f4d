"""The simulator must find housekeeping in which one failing step stops the others."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_gateway.upkeep.housekeeper import Housekeeper
from tidegate_gateway.upkeep.upkeep import Upkeep
from tidegate_simulation.run import simulate
from tidegate_storage.stores.object_store import StoreMisconfigured

FIRST_SEED = 8


def never_expires(patch: pytest.MonkeyPatch) -> None:
    """The expiry of offsets always fails, as if they fitted in no entry.

    This failure alone is harmless.
    """

    async def fail(self: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise ProposalFailed("larger than one entry of the metadata log may be")

    patch.setattr(Housekeeper, "_expire_offsets", fail)


def a_failure_ends_the_round(patch: pytest.MonkeyPatch) -> None:
    never_expires(patch)
    real = Upkeep.attempt

    async def attempt(self: Any, what: str, step: Any, **about: str) -> bool:
        if what == "look for offsets that expired":
            await step()
            return True
        return await real(self, what, step, **about)

    patch.setattr(Upkeep, "attempt", attempt)


def collects_nothing(patch: pytest.MonkeyPatch) -> None:
    async def collect(self: Any, numbers: list[int]) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreMisconfigured("locked")

    patch.setattr(Housekeeper, "_collect", collect)


@pytest.mark.parametrize("plant", [a_failure_ends_the_round, collects_nothing])
def test_planted_bugs_of_housekeeping_are_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, {"not collected"}, FIRST_SEED, monkeypatch)


def test_a_step_that_always_fails_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    never_expires(monkeypatch)
    for seed in range(1, 4):
        report = simulate(seed, 60)
        assert not report.violations, report.replay
