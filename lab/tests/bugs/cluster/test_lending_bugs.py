"""The simulator must find bugs of gateways that read for each other, and nothing without a bug."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.worlds.planted_bugs import must_be_found
from tidegate_gateway.fetch.lending.object_reads import FROM_STORE
from tidegate_gateway.fetch.lending.zone_reads import ZoneReads
from tidegate_gateway.fetch.run_verifier import RunVerifier
from tidegate_simulation.plans.gateways.zone_plan import lends
from tidegate_simulation.run import simulate
from tidegate_simulation.world.lending import PREFIX
from tidegate_storage.objects import prepared_runs
from tidegate_storage.stores.object_store import NoSuchObject


class AnyCrc:
    """Equal to every CRC."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


def trusts_what_others_give(patch: pytest.MonkeyPatch) -> None:
    real = RunVerifier.prepare_copy

    def prepare(self: Any, got: Any, *args: Any, **options: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            if got.lender != FROM_STORE:
                inner.setattr(prepared_runs, "crc32c", lambda data: AnyCrc())
            return real(self, got, *args, **options)

    patch.setattr(RunVerifier, "prepare_copy", prepare)


def takes_damaged_bytes_for_a_corrupt_object(patch: pytest.MonkeyPatch) -> None:
    real = RunVerifier.prepare_copy

    def prepare(self: Any, *args: Any, may_fail: bool) -> Any:
        return real(self, *args, may_fail=False)

    patch.setattr(RunVerifier, "prepare_copy", prepare)


def believes_that_an_object_is_missing(patch: pytest.MonkeyPatch) -> None:
    real = ZoneReads._lend

    async def lend(self: Any, found: Any, ask: Any) -> Any:
        body = await real(self, found, ask)
        if body is None:
            raise NoSuchObject(ask.key)
        return body

    patch.setattr(ZoneReads, "_lend", lend)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (trusts_what_others_give, {"lost", "unseen"}, 30),
        (takes_damaged_bytes_for_a_corrupt_object, {"false error"}, 161),
        (believes_that_an_object_is_missing, {"lost", "unseen"}, 24),
    ],
)
def test_planted_bugs_of_lending_are_found(
    plant: Any, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned_seed=lends)


def test_seeds_that_lend_find_nothing() -> None:
    landed = Counter[str]()
    for seed in [seed for seed in range(1, 100) if lends(seed)][:6]:
        report = simulate(seed, 60)
        assert not report.violations, report.replay
        landed.update(report.landed.counts)
    assert landed[f"{PREFIX}200"]
    assert landed[f"{PREFIX}damaged"]
