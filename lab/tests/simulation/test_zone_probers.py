"""The answers that the simulator's zone probers count as an unchanged gateway's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.state.records.objects import ObjectTable, WalName
from tidegate_simulation.probers.zone_probers import _is_right, _version, _Watched

LEASE_SECONDS = 12.0
OTHER = 2


def gateway(answered_at: float) -> Any:
    other = SimpleNamespace(incarnation=OTHER)
    gateways = SimpleNamespace(version=1, serving=lambda: [other])
    coordinator = SimpleNamespace(
        state=SimpleNamespace(gateways=gateways, objects=ObjectTable()),
        is_stale=False,
        stale_seconds=LEASE_SECONDS,
        log_answered_at=answered_at,
    )
    view = SimpleNamespace(neighbours=None)
    return SimpleNamespace(
        coordinator=coordinator, view=view, is_cut_off=False, absent=frozenset[int]()
    )


def watched(seen: Any) -> _Watched:
    node = cast(Any, SimpleNamespace(gateway=seen))
    return _Watched(node, seen, _version(seen), seen.coordinator.log_answered_at)


def cut(seen: Any, is_cut_off: bool) -> None:
    seen.is_cut_off = seen.coordinator.is_stale = is_cut_off


async def test_a_cut_that_began_and_ended_is_a_change(autojump_clock: MockClock) -> None:
    seen = gateway(trio.current_time())
    before = watched(seen)
    await trio.sleep(LEASE_SECONDS - 1)
    assert before.is_unchanged
    cut(seen, True)
    assert not before.is_unchanged
    await trio.sleep(2)
    cut(seen, False)
    assert not before.is_unchanged


async def test_a_gateway_that_lost_the_store_and_regained_it_is_a_change(
    autojump_clock: MockClock,
) -> None:
    seen = gateway(trio.current_time())
    before = watched(seen)
    objects = seen.coordinator.state.objects
    objects.fold_abandoned(WalName(OTHER, 0), 0)
    marked = watched(seen)
    objects.fold_committed(WalName(OTHER, 1), 1, 1, 0)
    assert not before.is_unchanged
    assert not marked.is_unchanged
    assert watched(seen).is_unchanged


async def test_an_answer_that_ended_a_cut_is_a_change(autojump_clock: MockClock) -> None:
    seen = gateway(trio.current_time())
    cut(seen, True)
    before = watched(seen)
    await trio.sleep(5 * LEASE_SECONDS)
    assert before.is_unchanged
    seen.coordinator.log_answered_at = trio.current_time()
    assert not before.is_unchanged


async def test_a_gateway_that_is_absent_now_is_a_change(autojump_clock: MockClock) -> None:
    seen = gateway(trio.current_time())
    before = watched(seen)
    seen.absent = frozenset({2})
    assert not before.is_unchanged


@pytest.mark.parametrize(
    ("living", "leader", "replicas", "is_right"),
    [
        (1, 7, [7], True),
        (1, 7, [], False),
        (1, 7, [8, 7], False),
        (1, -1, [], False),
        (0, -1, [], True),
        (0, -1, [7], False),
        (0, 7, [7], False),
    ],
)
def test_no_gateway_leads_only_if_none_lives(
    living: int, leader: int, replicas: list[int], is_right: bool
) -> None:
    life = SimpleNamespace(node_id=7, zone="zone-1", draining=False, incarnation=1)
    seen = gateway(0.0)
    seen.coordinator.state.gateways.brokers = lambda: [life] * living
    seen.absent = frozenset()
    assert _is_right(leader, replicas, watched(seen).recommended("zone-1")) == is_right
