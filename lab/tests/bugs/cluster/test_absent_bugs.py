"""The simulator must find bugs of gateways that probe each other, and nothing without a bug."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.peers.neighbours import Neighbours
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_simulation import run
from tidegate_simulation.nemesis import nemesis
from tidegate_simulation.nemesis.nemesis import Nemesis
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.gateways.away_plan import AWAY_KIND
from tidegate_simulation.plans.strikes import Strikes
from tidegate_simulation.run import plan_of, simulate
from tidegate_simulation.world.cuts import Cuts


def never_forgives(patch: pytest.MonkeyPatch) -> None:
    real = Neighbours._note_answer

    def note_answer(self: Neighbours, gateway: Any) -> None:
        if gateway.incarnation not in self.absent:
            real(self, gateway)

    patch.setattr(Neighbours, "_note_answer", note_answer)


def names_the_absent(patch: pytest.MonkeyPatch) -> None:
    real = ClusterView.__init__

    def init(self: Any, state: Any, zones: Any, absent: Any, **_: Any) -> None:
        real(self, state, zones)

    patch.setattr(ClusterView, "__init__", init)


def hears_everybody(patch: pytest.MonkeyPatch) -> None:
    async def answers(self: Any, gateway: Any) -> bool:
        return True

    patch.setattr(Neighbours, "_answers", answers)
    # The absence never lands, so the run lasts up to its limit: make the limit short.
    patch.setattr(run, "FAULTY_SECONDS", 200.0)
    patch.setattr(run, "FAULTY_SECONDS_PER_OPERATION", 0.0)


def looks(plan: FaultPlan) -> bool:
    return plan.zones.is_probed


def stays_away(plan: FaultPlan) -> bool:
    return AWAY_KIND in plan.kinds


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (never_forgives, {"absent though it lives"}, 227),
        (names_the_absent, {"wrong zone"}, 20),
        (hears_everybody, {"fault did not land"}, 151),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_neighbours_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, looks)


def test_seeds_with_absent_gateways_find_nothing() -> None:
    seeds = [seed for seed in range(1, 120) if stays_away(plan_of(seed))][:2]
    for seed in seeds:
        report = simulate(seed, 60)
        assert not report.violations, report.replay
        assert report.landed.counts[AWAY_KIND]


@pytest.mark.parametrize("kind", ["partition.clients", "hang", "half_open", "one_way", "trickle"])
async def test_an_event_that_finds_no_connection_ends_at_once(
    kind: str, autojump_clock: MockClock
) -> None:
    """A run is prolonged until a promised fault lands, so an event without effect must not last."""
    node: Any = SimpleNamespace(name="node 1", links={}, is_unreachable=False)
    world: Any = SimpleNamespace(
        rng=Random, strikes=Strikes((), Random(1)), cuts=Cuts(str), settings={"lease.ms": "6000"}
    )
    since = trio.current_time()
    await Nemesis(world, [node])._node_events[kind](node)
    assert trio.current_time() == since
    assert not world.strikes.landed[kind]


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_other_events_are_rare_until_an_absence_is_noticed(
    is_noticed: bool, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Gateways that restart without end would never notice the absence."""
    monkeypatch.setattr(nemesis, "is_absent", lambda *_: is_noticed)
    node: Any = SimpleNamespace(
        is_up=True,
        gateway=SimpleNamespace(coordinator=SimpleNamespace(incarnation=1)),
        crash=lambda: None,
    )
    world: Any = SimpleNamespace(
        rng=Random,
        strikes=Strikes(("away",), Random(1)),
        cuts=Cuts(str),
        settings={"lease.ms": "6000"},
    )
    troubles = Nemesis(world, [node])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(troubles._stay_away, node)
        await trio.sleep(1.0)
        assert troubles._agenda.is_awaited is not is_noticed
        assert world.strikes.landed["away"] == is_noticed
    assert not troubles._agenda.is_awaited
    assert world.strikes.landed["away"] == is_noticed
