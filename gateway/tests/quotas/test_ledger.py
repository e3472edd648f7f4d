"""The shares that the owner of a quota grants, and the choice of the owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.quotas.share_world import ShareWorld
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.security.quotas import Bucket
from tidegate_gateway.quotas.rates import MAX_THROTTLE_MS, Windows
from tidegate_gateway.quotas.sharing import ledger as ledger_module
from tidegate_gateway.quotas.sharing import membership as membership_module
from tidegate_gateway.quotas.sharing import shares as shares_module
from tidegate_gateway.quotas.sharing.allowance import Allowance
from tidegate_gateway.quotas.sharing.held_share import FALL_MS, HOLD_MS, KEPT_MS
from tidegate_gateway.quotas.sharing.ledger import SILENT_MS, ShareLedger, Wanted
from tidegate_gateway.quotas.sharing.membership import VOTE_MS, Member, Membership
from tidegate_gateway.quotas.sharing.messages import Wish
from tidegate_gateway.quotas.usage import SharedUsage

KEY = b"k" * 16
LONG_AGO = -(10**6)


@dataclass(slots=True)
class Three:
    live: frozenset[int] = frozenset({1, 2, 3})
    suspects: frozenset[int] = frozenset()
    changed_ms: int = LONG_AGO
    epoch: int = 1
    ledger: ShareLedger = field(default_factory=ShareLedger)

    def ask(self, asker: int, demand: float, held: float, now_ms: int) -> float:
        wanted = Wanted(900.0, demand, held)
        share = self.ledger.grant(KEY, asker, wanted, self, now_ms)
        assert share is not None
        return share


def test_a_share_grows_once_others_have_shown_that_they_know_of_theirs() -> None:
    three = Three()
    assert three.ask(1, 900, 300, 0) == 894  # the quota less two floors
    assert three.ask(2, 900, 3, 100) == 3
    assert three.ask(1, 900, 894, 500) == 448.5
    assert three.ask(2, 900, 3, 600) == 3  # gateway 1 may not have received its answer
    assert three.ask(1, 900, 448.5, 1_000) == 448.5
    assert three.ask(2, 900, 3, 1_100) == 448.5


def test_what_a_gateway_gives_back_can_be_given_at_once() -> None:
    three = Three()
    three.ask(1, 900, 300, 0)
    assert three.ask(1, 0, 3, 500) == 3
    assert three.ask(2, 900, 3, 600) == 894


def test_a_silent_gateway_keeps_an_even_part_until_it_is_missed() -> None:
    three = Three()
    three.ask(1, 900, 894, 0)
    assert three.ask(2, 900, 3, KEPT_MS) == 3
    assert three.ask(2, 900, 3, KEPT_MS + 1) == 897 - 300
    three.suspects = frozenset({1})
    assert three.ask(2, 900, 597, KEPT_MS + 100) == 894
    three.suspects = frozenset()
    three.ask(1, 900, 3, 10_000)
    assert three.ask(2, 900, 3, 10_000 + SILENT_MS) < 894
    assert three.ask(2, 900, 3, 10_000 + SILENT_MS + 1) == 894


def test_a_new_owner_gives_no_gateway_more_than_it_holds() -> None:
    three = Three(changed_ms=0)
    assert three.ask(2, 900, 200, 100) == 200
    assert three.ask(1, 900, 690, 200) == 448.5
    assert three.ask(2, 900, 200, KEPT_MS - 1) == 200
    assert three.ask(1, 900, 448.5, KEPT_MS) == 448.5
    assert three.ask(2, 900, 200, KEPT_MS) == 448.5


def test_the_smaller_quota_counts_while_gateways_know_different_ones() -> None:
    three = Three()
    three.ask(1, 900, 3, 0)
    share = three.ledger.grant(KEY, 2, Wanted(90.0, 90, 0), three, 100)
    assert share is not None
    assert share <= 90


def test_the_number_of_quotas_is_bounded_and_old_ones_make_room() -> None:
    three, wanted = Three(), Wanted(9.0, 9, 1)
    before, ledger_module.MAX_QUOTAS = ledger_module.MAX_QUOTAS, 2  # type: ignore[misc]
    try:
        for number in range(3):
            share = three.ledger.grant(bytes([number]) * 16, 1, wanted, three, 0)
            assert (share is None) is (number == 2)
        assert three.ledger.grant(bytes([2]) * 16, 1, wanted, three, KEPT_MS + 1) is not None
        assert len(three.ledger) == 2
    finally:
        ledger_module.MAX_QUOTAS = before  # type: ignore[misc]


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.floats(0, 1_000), st.booleans()), min_size=1, max_size=60
    )
)
def test_grants_never_add_up_to_more_than_the_quota(
    asks: list[tuple[int, float, bool]],
) -> None:
    three, held, now_ms = Three(), {1: 3.0, 2: 3.0, 3: 3.0}, 0
    for asker, demand, is_lost in asks:
        now_ms += 100
        if demand < held[asker]:
            held[asker] = max(demand, 3.0)
        share = three.ask(asker, demand, held[asker], now_ms)
        if not is_lost:
            held[asker] = share
        assert sum(held.values()) <= 900 * (1 + 1e-9)


MEMBERS = [Member(each, each * 10, can_own=True) for each in (1, 2, 3)]


def owner_of(*members: Member) -> int:
    number = choose(KEY, [each.node_id for each in members])
    return next(each.incarnation for each in members if each.node_id == number)


def test_all_gateways_choose_the_same_owner() -> None:
    views = [Membership(each) for each in (1, 2, 3)]
    for view in views:
        view.look(MEMBERS, (), 0)
        began = view.epoch
        view.look(MEMBERS, (), 500)
        assert (view.epoch, view.changed_ms) == (began, 0)
    assert {view.owner(KEY) for view in views} == {owner_of(*MEMBERS)}
    assert [view.owns(KEY) for view in views].count(True) == 1


def test_a_gateway_is_left_out_if_most_miss_it() -> None:
    first = owner_of(*MEMBERS)
    others = [each for each in MEMBERS if each.incarnation != first]
    me, friend = (each.incarnation for each in others)
    view = Membership(me)
    view.look(MEMBERS, [first], 0)
    assert view.owner(KEY) == first
    view.note_vote(friend, [first], 100)
    view.look(MEMBERS, [first], 200)
    assert view.owner(KEY) == owner_of(*others)
    assert view.changed_ms == 200
    view.look(MEMBERS, [first], 200 + VOTE_MS)  # the vote is old
    assert view.owner(KEY) == first


def test_a_gateway_that_misses_half_of_all_owns_nothing() -> None:
    me = owner_of(*MEMBERS)
    view = Membership(me)
    view.look(MEMBERS, (), 0)
    assert view.owns(KEY)
    view.look(MEMBERS, [each for each in (1, 2, 3) if each != me], 500)
    assert not view.owns(KEY)
    pair = MEMBERS[:2]
    view = Membership(owner_of(*pair))
    view.look(pair, [1, 2], 0)
    assert not view.owns(KEY)


def test_after_a_sleep_a_gateway_is_a_new_owner() -> None:
    view = Membership(1)
    view.look(MEMBERS, (), 0)
    view.look(MEMBERS, (), HOLD_MS)
    assert view.changed_ms == 0
    began = view.epoch
    view.look(MEMBERS, (), 2 * HOLD_MS + 1)
    assert view.changed_ms == 2 * HOLD_MS + 1
    assert view.epoch >= began + 2  # the owner forgets what it granted


def test_an_owner_forgets_what_it_granted_once_it_was_not_the_owner_between() -> None:
    three = Three()
    three.ask(1, 900, 300, 0)
    three.ask(2, 900, 3, 100)
    three.epoch, three.changed_ms = 2, 200  # no other owner between two epochs in a row
    assert three.ask(1, 900, 894, 300) == 448.5
    three.epoch, three.changed_ms = 4, 400
    assert three.ask(2, 900, 3, 500) == 3  # the owner learns the shares anew
    assert three.ask(1, 900, 500, 600) == 448.5


def test_a_memory_of_owners_holds_until_they_change() -> None:
    view = Membership(1)
    keys = [bytes([each]) * 16 for each in range(64)]
    for at_ms, members in enumerate([MEMBERS, MEMBERS[:2], MEMBERS, MEMBERS[1:]]):
        view.look(members, (), at_ms)
        fresh = Membership(1)
        fresh.look(members, (), at_ms)
        for _ in range(2):
            assert [view.owner(each) for each in keys] == [fresh.owner(each) for each in keys]
    before, membership_module.MAX_CHOSEN = membership_module.MAX_CHOSEN, 10  # type: ignore[misc]
    try:
        view.look(MEMBERS, (), 500)
        expected = [choose(each, [10, 20, 30]) // 10 for each in keys]
        assert [view.owner(each) for each in keys] == expected
    finally:
        membership_module.MAX_CHOSEN = before  # type: ignore[misc]


class Uses(list[Allowance]):
    """The allowances that clients used.  has_room: whether an allowance may become active."""

    has_room = True

    def note(self, allowance: Allowance) -> bool:
        self.append(allowance)
        return self.has_room


def test_beyond_the_bound_an_allowance_has_an_even_share_until_there_is_room() -> None:
    used = Uses()
    allowance = Allowance(10.0, lambda: 3, used.note)
    allowance.take(1, 900, 0)
    for at_ms in range(500, 10_000, 500):
        allowance.look(at_ms)
    assert allowance.share(10_000) == 3  # the allowance gave its share back
    used.has_room = False
    allowance.take(1, 900, 10_000)
    assert allowance.look(10_500) is None
    assert allowance.share(10_000 + KEPT_MS + FALL_MS) == 300
    used.has_room = True
    allowance.take(1, 900, 13_000)
    assert allowance.look(13_500) is not None
    assert len(used) == 3


async def test_active_quotas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "MAX_ACTIVE", 2)
    shares = ShareWorld([0, 0]).nodes[1].shares
    made = [shares.allowance("Produce", Bucket("alice", str(each)), 10.0) for each in range(5)]
    for each in made:
        each.take(10, 900, 0)
    assert shares.active == 2
    for at_ms in range(500, 10_000, 500):
        await shares.due(at_ms)
    assert shares.active == 0
    made[4].take(10, 900, 10_000)
    assert shares.active == 1


def test_without_gateways_that_can_be_asked_there_is_no_owner() -> None:
    view = Membership(1)
    view.look([Member(1, 1, can_own=False)], (), 0)
    assert view.owner(KEY) is None
    assert not view.owns(KEY)


def test_an_allowance_grows_by_the_share_whatever_way_it_goes() -> None:
    used = Uses()
    allowance = Allowance(10.0, lambda: 3, used.note)
    assert allowance.tokens(900, 0) == 3_000  # ten seconds of an even share
    allowance.take(3_000, 900, 0)
    assert used == [allowance]
    assert allowance.throttle_ms(900, 0) == 0
    allowance.take(600, 900, 0)
    # The throttle time assumes the even share, though the gateway may hold less at the moment.
    assert allowance.throttle_ms(900, 0) == 2_000
    allowance.grant(100, 0, 0)
    assert allowance.throttle_ms(900, 0) == 2_000
    assert allowance.tokens(900, 1_000) == -500
    allowance.grant(800, 1_000, 1_000)
    assert allowance.throttle_ms(900, 1_000) == 625
    assert allowance.tokens(900, 1_500) == -100
    assert used == [allowance]


@pytest.mark.parametrize("quota", [5e-324, 1e-300, 1e300, 1.7e308])
def test_an_allowance_of_a_tiny_or_huge_quota_has_finite_waits_and_wishes(quota: float) -> None:
    allowance = Allowance(10.0, lambda: 3, lambda _: True)
    for now_ms in range(0, 10_000, 500):
        allowance.take(1_000, quota, now_ms)
        assert 0 <= allowance.throttle_ms(quota, now_ms) <= MAX_THROTTLE_MS
        wanted = allowance.look(now_ms)
        assert wanted is not None
        assert Wish(KEY, *wanted).is_sound
        allowance.grant(wanted.held, now_ms, now_ms)


def test_a_consumer_that_gets_nothing_uses_no_allowance() -> None:
    used = Uses()
    usage = SharedUsage(Windows(), Allowance(10.0, lambda: 1, used.note))
    assert usage.offer(0, 900, 0) == 0
    assert usage.spend(0, 900, 500) == 0
    usage.take_back(0, 900, 500)
    assert not used
    usage.spend(12_000, 900, 1_000)  # another client of the same quota
    [allowance] = used
    for at_ms in range(1_500, 10_000, 500):
        allowance.look(at_ms)
        assert usage.offer(0, 900, at_ms) == 0  # it wants no share, so it need not wait
    assert allowance.look(10_000) is None


def test_an_allowance_that_nobody_uses_asks_for_nothing() -> None:
    used = Uses()
    allowance = Allowance(10.0, lambda: 1, used.note)
    assert allowance.look(0) is None
    allowance.take(100, 900, 0)
    wanted = allowance.look(500)
    assert wanted is not None
    assert 0 < wanted.demand < 100
    for at_ms in range(1_000, 5_001, 500):
        wanted = allowance.look(at_ms)
        assert wanted is not None
    wanted = allowance.look(5_500)
    assert wanted == Wanted(900, 0, 9)
    assert allowance.look(6_000) is None
    allowance.take(1, 900, 7_000)
    assert len(used) == 2
