"""`tidegate simulate --zones`: gateways and clients of several zones, and cuts between any two."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.coordinator.committer import Committer
from tidegate_gateway.fetch.lending import object_owners, zone_reads
from tidegate_gateway.produce.wal_puts import WalPuts
from tidegate_gateway.zones.read_steering import ReadSteering
from tidegate_simulation.command import app
from tidegate_simulation.plans.bounds import MAX_ZONES
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.gateways.zone_plan import PARTITION_KINDS, draw_zones
from tidegate_simulation.run import plan_of, simulate
from tidegate_simulation.world.cuts import Cuts
from tidegate_storage.stores.object_store import StoreUnavailable

ZONES = 3


def _covering() -> list[int]:
    """Return a few seeds that together draw every partition."""
    chosen: list[int] = []
    left = set(PARTITION_KINDS)
    for seed in range(1, 200):
        if left & set(plan_of(seed, ZONES).kinds):
            left -= set(plan_of(seed, ZONES).kinds)
            chosen.append(seed)
    assert not left
    return chosen


def test_every_zone_has_a_gateway() -> None:
    for asked in range(1, MAX_ZONES + 1):
        for seed in range(20):
            plan = draw_zones(seed, asked, is_calm=False)
            assert len(plan.names) == asked
            assert len(plan.of_gateways) >= 3
            assert {plan.of_client(str(each)) for each in range(99)} == {"", *plan.names}


def test_without_the_option_clients_have_no_zone_and_no_cut_is_drawn() -> None:
    for seed in range(50):
        plan = draw_zones(seed, 0, is_calm=False)
        assert plan.of_client("reader 1") == ""
        assert not plan.kinds


def test_a_cut_has_a_direction_and_ends() -> None:
    cuts = Cuts({"node 1": "zone-1", "client": "zone-2"}.get)  # type: ignore[arg-type]
    with cuts.between([("zone-1", "zone-2")]), cuts.between([("zone-1", "zone-2")]):
        assert not cuts.reaches("node 1", "client")
        assert cuts.reaches("client", "node 1")
        assert not cuts.connects("client", "node 1")
    assert cuts.connects("client", "node 1")


def test_every_partition_lands_without_a_violation() -> None:
    landed = Counter[str]()
    for seed in _covering():
        report = simulate(seed, 100, ZONES)
        assert not report.violations, report.replay
        assert report.replay.endswith(f" --zones {ZONES}")
        landed.update(report.landed.counts)
    assert not set(PARTITION_KINDS) - set(landed)
    assert landed["zone.near"]
    assert landed["zone.across"]
    assert landed["zone.read_elsewhere"]
    assert landed["lending.200"]


def test_the_command_prints_the_answers_across_zones() -> None:
    arguments = ["--seeds", "2", "--operations", "40", "--zones", "2", "--jobs", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stdout
    found = json.loads(result.stdout)
    expected = simulate(2, 40, 2).landed.counts
    assert found["zones"] == 2
    assert found["answers_across_zones"] == expected["zone.across"] > 0
    assert found["answers_in_zone"] == expected["zone.near"] > 0
    assert CliRunner().invoke(app, ["--zones", "10"]).exit_code == 2


# -- planted bugs ---------------------------------------------------------------------------------


def borrows_from_other_zones(patch: pytest.MonkeyPatch) -> None:
    real: Any = object_owners.gateways_of
    patch.setattr(zone_reads, "gateways_of", lambda all_, _, id_of: real(all_, "zone-1", id_of))


def sends_consumers_in_circles(patch: pytest.MonkeyPatch) -> None:
    real = ReadSteering.of
    next_zone = {"zone-1": "zone-2", "zone-2": "zone-3", "zone-3": "zone-1"}

    def of(self: Any, call: Any, rack: str) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "_own_zone", next_zone.get(self._own_zone, ""))
            return real(self, call, rack)

    patch.setattr(ReadSteering, "of", of)


def takes_a_lost_answer_of_the_log_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Committer, "_is_own", lambda *_: False)


def takes_a_lost_answer_of_the_store_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    real = WalPuts.put

    async def put(self: Any, key: str, body: Any) -> None:
        try:
            await self._store.put(key, body)
        except StoreUnavailable:
            await real(self, key, body)
            await self._store.delete_many([key])

    patch.setattr(WalPuts, "put", put)


def draws(kind: str) -> Any:
    def is_drawn(plan: FaultPlan) -> bool:
        return not kind or kind in plan.kinds

    return is_drawn


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "kind", "first_seed"),
    [
        (borrows_from_other_zones, {"wrong lender"}, "", 1),
        (sends_consumers_in_circles, {"wrong zone", "livelock"}, "", 3),
        (
            takes_a_lost_answer_of_the_log_for_a_failure,
            {"no offset", "false error"},
            "partition.log",
            226,
        ),
        (
            takes_a_lost_answer_of_the_store_for_a_failure,
            {"not stored"},
            "partition.store_deaf",
            20,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_are_found_in_many_zones(
    plant: Plant,
    expected: set[str],
    kind: str,
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, draws(kind), zones=ZONES)
