"""Gateways that share a quota: how much passes at any demand, and when gateways die."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds.quotas.share_world import KEY, LOOK_MS, QUOTA, ShareWorld
from tidegate_coordination.configs.cluster_wide import QUOTA_SCOPE
from tidegate_coordination.state.writers.static_settings import Told

PHASES = st.lists(st.integers(0, LOOK_MS - 1), min_size=3, max_size=3)
GREEDY = 50 * QUOTA


def shared(*per_second: float, phases: list[int] | None = None) -> ShareWorld:
    world = ShareWorld(phases or [0, 150, 350])
    for node, rate in zip(world.nodes.values(), per_second, strict=True):
        node.load.per_second = rate
    return world


@pytest.mark.parametrize(
    "loads", [(1_800, 200, 0), (0, GREEDY, 100), (GREEDY, GREEDY, GREEDY), (0, 0, GREEDY)]
)
def test_the_whole_quota_is_used_and_no_more(loads: tuple[float, float, float]) -> None:
    world = shared(*loads)
    world.run(15)
    assert 0.95 <= world.rate(30) <= 1.02


def test_a_small_demand_is_met_beside_a_large_one() -> None:
    world = shared(GREEDY, 200, 0)
    world.run(15)
    begun_ms = world.now_ms
    world.run(20)
    small = sum(size for at, size in world.nodes[2].load.passed if at > begun_ms)
    assert small >= 0.99 * 200 * 20


@settings(max_examples=15, deadline=None)
@given(PHASES, st.tuples(*[st.sampled_from([0, 100, 400, 1_800, GREEDY])] * 3))
def test_five_seconds_after_its_owner_died_the_whole_quota_is_used(
    phases: list[int], loads: tuple[float, float, float]
) -> None:
    world = shared(*loads, phases=phases)
    world.run(15)
    owner = world.owner
    world.kill(owner)
    # The dead owner's clients go to the next gateway.
    others = [each for each in world.nodes.values() if not each.is_dead]
    others[0].load.per_second += owner.load.per_second
    world.run(5)
    wanted = min(sum(each.load.per_second for each in others), QUOTA) / QUOTA
    assert 0.95 * wanted <= world.rate(30) <= 1.1
    world.expire(owner)
    world.run(5)
    assert 0.95 * wanted <= world.rate(30) <= 1.1


class Strict(ShareWorld):
    """While `is_strict`, checks at each moment that the shares do not exceed `allowed`."""

    is_strict = False
    allowed = QUOTA

    def check(self) -> None:
        """See ShareWorld."""
        if self.is_strict:
            assert self.held() <= self.allowed * (1 + 1e-9), self.now_ms


Rates = st.tuples(*[st.sampled_from([20, 100, 400, 1_800, GREEDY])] * 3)


@settings(max_examples=25, deadline=None)
@given(PHASES, Rates, st.lists(Rates, max_size=3))
def test_shares_never_add_up_to_more_than_the_quota(
    phases: list[int],
    loads: tuple[float, float, float],
    later: list[tuple[float, float, float]],
) -> None:
    world = Strict(phases)
    load(world, loads)
    world.run(4)
    world.is_strict = True  # all gateways have asked at least once
    for rates in [*later, loads]:
        load(world, rates)
        world.run(3)
    world.kill(world.owner)
    world.run(8)


@settings(max_examples=15, deadline=None)
@given(PHASES, Rates, st.lists(st.integers(0, 5_000), max_size=6))
def test_lost_answers_cost_no_more_than_that_small_shares_become_even(
    phases: list[int], loads: tuple[float, float, float], silences_ms: list[int]
) -> None:
    world = Strict(phases)
    load(world, loads)
    world.run(4)
    world.is_strict, world.allowed = True, QUOTA * (1 + 1 / 3)
    for at, silence_ms in enumerate(silences_ms):
        world.loses_answers = at % 2 == 0
        world.run(silence_ms / 1_000)
    world.loses_answers = False
    world.run(3)
    world.allowed = QUOTA
    world.run(5)


@settings(max_examples=15, deadline=None)
@given(PHASES, Rates, st.permutations([1, 2, 3]))
def test_a_gateway_that_is_cut_off_adds_no_more_than_an_even_share(
    phases: list[int], loads: tuple[float, float, float], order: list[int]
) -> None:
    world = Strict(phases)
    load(world, loads)
    world.run(4)
    world.is_strict, world.allowed = True, QUOTA * (1 + 1 / 3)
    alone, *others = order
    for each in others:
        world.cut(alone, each)
    world.run(10)
    world.heal()
    world.run(5)
    world.allowed = QUOTA
    world.run(5)


@settings(max_examples=15, deadline=None)
@given(PHASES, Rates, st.permutations([1, 2, 3]))
def test_two_gateways_that_do_not_reach_each_other_choose_no_second_owner(
    phases: list[int], loads: tuple[float, float, float], order: list[int]
) -> None:
    world = Strict(phases)
    load(world, loads)
    world.run(4)
    world.is_strict, world.allowed = True, QUOTA * (1 + 1 / 3)
    world.cut(order[0], order[1])
    world.run(10)
    world.heal()
    world.run(5)
    world.allowed = QUOTA
    world.run(5)


@settings(max_examples=15, deadline=None)
@given(PHASES, Rates, st.integers(3, 10))
def test_an_owner_that_answers_no_probes_gives_the_quota_up_to_another_one(
    phases: list[int], loads: tuple[float, float, float], seconds: int
) -> None:
    world = Strict(phases)
    load(world, loads)
    world.run(4)
    world.is_strict = True
    world.deaf = {world.owner.incarnation}
    world.run(seconds)
    owners = {each.shares.membership.owner(KEY) for each in world.nodes.values()}
    assert len(owners) == 1
    assert not owners & world.deaf
    assert [each.shares.membership.owns(KEY) for each in world.nodes.values()].count(True) == 1
    world.deaf = set()
    world.run(10)


def test_a_gateway_without_answers_to_probes_has_its_share_like_all_others() -> None:
    world = shared(GREEDY, GREEDY, GREEDY)
    world.run(5)
    world.deaf = {world.owner.incarnation}
    world.run(15)
    assert 0.95 <= world.rate(30) <= 1.02
    world.deaf = set()
    assert 0.95 <= world.rate(30) <= 1.02


def test_an_owner_that_nothing_reaches_learns_it_from_answers() -> None:
    world = shared(GREEDY, GREEDY, GREEDY)
    world.run(5)
    world.deaf = world.unasked = {world.owner.incarnation}
    world.run(15)
    assert 0.95 <= world.rate(30) <= 1.02


@pytest.mark.parametrize("told", [{}, {QUOTA_SCOPE: "broker"}, None])
def test_a_gateway_that_did_not_tell_that_it_shares_divides_no_quota(
    told: dict[str, str] | None,
) -> None:
    """Such a gateway may be of an older release, which answers no questions about shares."""
    world = shared(GREEDY, 0, 0)
    world.run(2)
    first = world.owner.incarnation
    if told is None:
        del world.told[first]
    else:
        world.told[first] = Told(told)
    world.run(4)
    owners = {each.shares.membership.owner(KEY) for each in world.nodes.values()}
    assert len(owners) == 1
    assert first not in owners
    assert 0.95 <= world.rate(30) <= 1.02


def load(world: ShareWorld, per_second: tuple[float, float, float]) -> None:
    for node, rate in zip(world.nodes.values(), per_second, strict=True):
        node.load.per_second = rate


def test_a_quota_that_nobody_uses_costs_no_message() -> None:
    world = shared(GREEDY, GREEDY, GREEDY)
    world.run(5)
    load(world, (0, 0, 0))
    world.run(10)
    asked = world.asked
    world.run(60)
    assert world.asked == asked
    assert not any(each.shares.active for each in world.nodes.values())


def test_a_client_of_an_idle_gateway_begins_at_once_and_soon_has_its_share() -> None:
    world = shared(GREEDY, GREEDY, 0)
    world.run(20)
    idle = world.nodes[3]
    idle.load.per_second, begun_ms = GREEDY, world.now_ms
    world.run(2)
    assert idle.load.passed[0][0] <= begun_ms + 100
    world.run(10)
    load(world, (GREEDY, GREEDY, 0))
    world.run(60)
    load(world, (GREEDY, GREEDY, GREEDY))  # the gateway has saved up only what its floor brought
    begun_ms = world.now_ms
    world.run(2)
    since = [size for at, size in idle.load.passed if at > begun_ms]
    assert sum(since) >= QUOTA / 3 * 0.5
    assert world.rate(10) <= 1.02


def test_clients_that_go_from_gateway_to_gateway_get_one_quota() -> None:
    world = shared(0, 0, 0)
    for number in range(30):
        load(world, (GREEDY * (number % 3 == 0), GREEDY * (number % 3 == 1), 0))
        if number % 3 == 2:
            world.nodes[3].load.per_second = GREEDY
        world.run(4)
    # Ten seconds of the quota are saved up at first.
    assert world.passed(0) <= QUOTA * (30 * 4 + 10) * 1.02


@pytest.mark.parametrize("seconds", [2, 4, 8])
def test_clients_that_send_much_now_and_then_take_little_from_others(seconds: float) -> None:
    world = shared(GREEDY, 200, 0)
    world.nodes[2].load.size = 200 * seconds
    world.run(20)
    assert world.rate(60) >= 0.9
