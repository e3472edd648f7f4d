"""Rules of delegation tokens, and what the fold makes of their events."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.rules.test_wal_rules import World
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.gates import needed_for
from tidegate_coordination.events.security import DelegationTokenSet, DelegationTokensRemoved
from tidegate_coordination.rules.security import tokens as rules
from tidegate_coordination.rules.security.tokens import (
    MAX_BYTES_OF_REQUESTER,
    MAX_OF_REQUESTER,
    MAX_REMOVED,
    MAX_RENEWERS,
    CreateToken,
    ExpireToken,
    RemoveExpiredTokens,
    RenewToken,
    TokenRefusal,
)
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial

HOUR_MS = 3_600_000
LONG_MAX = (1 << 63) - 1
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


class Cluster(World):
    def propose(self, proposal: Any) -> Any:
        decided = proposal.decide(self.view())
        Trial(self.state).check(decided.events)
        if decided.events:
            self.apply(*decided.events)
        return decided.answer

    @property
    def now_ms(self) -> int:
        return self.view().log_time_ms

    def create(
        self,
        token_id: str = "t",
        owner: str = ALICE,
        renewers: tuple[str, ...] = (),
        lifetime_ms: int = 7 * HOUR_MS,
        requester: str = ALICE,
    ) -> DelegationToken:
        proposal = CreateToken(token_id, owner, requester, renewers, lifetime_ms, HOUR_MS)
        found = self.propose(proposal)
        assert isinstance(found, DelegationToken)
        return found


def test_a_token_has_its_times() -> None:
    cluster = Cluster()
    token = cluster.create(renewers=(BOB,), requester=CAROL)
    now_ms = cluster.now_ms
    times = now_ms, now_ms + 7 * HOUR_MS, now_ms + HOUR_MS
    assert token == DelegationToken("t", ALICE, CAROL, (BOB,), *times)
    assert list(cluster.state.tokens) == [token]
    short = cluster.create("short", lifetime_ms=5)
    assert (short.max_ms, short.expires_ms) == (now_ms + 5, now_ms + 5)
    cluster.check_replay()


def test_owner_and_renewers_may_renew_and_nobody_else() -> None:
    cluster = Cluster()
    token = cluster.create(renewers=(BOB,), requester=CAROL)
    cluster.create("other", renewers=(CAROL,))
    cluster.clock_ms += HOUR_MS // 2
    for principal in (ALICE, BOB):
        answer = cluster.propose(RenewToken("t", principal, HOUR_MS))
        assert answer == cluster.now_ms + HOUR_MS > token.expires_ms
    for principal in (CAROL, "User:bo", ""):
        assert cluster.propose(RenewToken("t", principal, HOUR_MS)) is TokenRefusal.NOT_ALLOWED
        assert cluster.propose(ExpireToken("t", principal, -1)) is TokenRefusal.NOT_ALLOWED
    assert cluster.propose(RenewToken("none", ALICE, HOUR_MS)) is TokenRefusal.NOT_FOUND
    assert cluster.propose(ExpireToken("none", ALICE, -1)) is TokenRefusal.NOT_FOUND
    cluster.check_replay()


@pytest.mark.parametrize("period_ms", [8 * HOUR_MS, LONG_MAX])
def test_no_token_outlives_its_greatest_age(period_ms: int) -> None:
    cluster = Cluster()
    token = cluster.create()
    assert cluster.propose(RenewToken("t", ALICE, period_ms)) == token.max_ms
    assert cluster.propose(ExpireToken("t", ALICE, period_ms)) == token.max_ms
    endless = cluster.create("endless", lifetime_ms=LONG_MAX)
    assert endless.max_ms == LONG_MAX
    cluster.check_replay()


def test_what_has_expired_is_not_renewed_but_removed() -> None:
    cluster = Cluster()
    token = cluster.create(renewers=(BOB,))
    cluster.clock_ms += HOUR_MS
    assert cluster.propose(RenewToken("t", BOB, 1)) == token.expires_ms + 1
    cluster.clock_ms += 2
    assert cluster.propose(RenewToken("t", CAROL, 1)) is TokenRefusal.EXPIRED
    assert cluster.propose(ExpireToken("t", ALICE, 0)) is TokenRefusal.EXPIRED
    assert cluster.propose(ExpireToken("t", CAROL, 0)) is TokenRefusal.NOT_ALLOWED
    assert cluster.propose(ExpireToken("t", BOB, -1)) == cluster.now_ms
    assert list(cluster.state.tokens) == []
    assert cluster.state.tokens.requested_by(ALICE) == 0
    cluster.check_replay()


@pytest.mark.slow
def test_expired_tokens_are_removed_in_parts() -> None:
    cluster = Cluster()
    cluster.create("long", lifetime_ms=9 * HOUR_MS)
    cluster.propose(RenewToken("long", ALICE, 9 * HOUR_MS))
    for number in range(MAX_REMOVED + 1):
        cluster.create(f"{number}", lifetime_ms=1, requester=(BOB, CAROL)[number % 2])
    assert not cluster.propose(RemoveExpiredTokens())
    cluster.clock_ms += 2
    assert cluster.propose(RemoveExpiredTokens())
    assert len(cluster.state.tokens.ids) == 2
    assert not cluster.propose(RemoveExpiredTokens())
    assert list(cluster.state.tokens.ids) == ["long"]
    assert RemoveExpiredTokens().decide(cluster.view()).events == ()
    cluster.check_replay()


def test_one_gateway_with_a_wrong_clock_makes_no_lasting_token() -> None:
    cluster = Cluster()
    # The clock jumps a day ahead. Log time advances by an hour at most.
    cluster.clock_ms += 24 * HOUR_MS
    token = cluster.create()
    assert token.max_ms <= 1_000_000 + HOUR_MS + 7 * HOUR_MS


def test_a_token_ends_in_time_where_a_clock_was_once_ahead() -> None:
    cluster = Cluster()
    cluster.clock_ms += HOUR_MS
    cluster.propose(CreateToken("of then", ALICE, ALICE, (), HOUR_MS, HOUR_MS))
    cluster.clock_ms -= HOUR_MS
    cluster.create("one entry later")
    token = cluster.create(lifetime_ms=HOUR_MS)
    assert cluster.now_ms > cluster.clock_ms
    assert token.expires_ms == cluster.clock_ms + HOUR_MS
    cluster.clock_ms += HOUR_MS + 1
    assert cluster.propose(RenewToken("t", ALICE, 1)) is TokenRefusal.EXPIRED


def test_tokens_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    long = CreateToken("t", ALICE, ALICE, ("User:" + "x" * 9_000,), HOUR_MS, HOUR_MS)
    assert cluster.propose(long) is TokenRefusal.TOO_LARGE
    assert MAX_OF_REQUESTER == 1_000
    monkeypatch.setattr(rules, "MAX_OF_REQUESTER", 2)
    cluster.create("a")
    cluster.create("b")
    more = CreateToken("c", ALICE, ALICE, (), HOUR_MS, HOUR_MS)
    assert cluster.propose(more) is TokenRefusal.TOO_MANY
    assert isinstance(
        cluster.propose(CreateToken("c", ALICE, BOB, (), HOUR_MS, HOUR_MS)), DelegationToken
    )
    cluster.propose(ExpireToken("a", ALICE, -1))
    assert isinstance(cluster.propose(more), DelegationToken)


def test_the_tokens_of_a_principal_have_a_size_in_memory() -> None:
    cluster = Cluster()
    names = ("User:",) * MAX_RENEWERS
    more = CreateToken("more", ALICE, ALICE, (*names, "User:"), HOUR_MS, HOUR_MS)
    assert cluster.propose(more) is TokenRefusal.TOO_LARGE
    more = CreateToken("more", ALICE, ALICE, names, HOUR_MS, HOUR_MS)
    tokens = cluster.state.tokens
    size_bytes = cluster.create("0", renewers=names).memory_bytes
    made = sys.getsizeof("User:") * MAX_RENEWERS
    assert made < size_bytes < 2 * made
    for number in range(1, MAX_BYTES_OF_REQUESTER // size_bytes):
        cluster.create(f"{number}", renewers=names)
    assert len(tokens.ids) < MAX_OF_REQUESTER
    assert cluster.propose(more) is TokenRefusal.TOO_MANY
    cluster.propose(RenewToken("1", ALICE, 1))
    assert cluster.propose(more) is TokenRefusal.TOO_MANY
    assert tokens.bytes_requested_by(ALICE) <= MAX_BYTES_OF_REQUESTER
    cluster.create("of another", requester=BOB)
    cluster.propose(ExpireToken("100", ALICE, -1))
    assert isinstance(cluster.propose(more), DelegationToken)
    restored = ClusterState.decode(cluster.state.encode()).tokens
    assert restored.bytes_requested_by(ALICE) == tokens.bytes_requested_by(ALICE)
    for each in list(tokens.ids):
        cluster.propose(ExpireToken(each, ALICE, -1))
    assert tokens.bytes_requested_by(ALICE) == tokens.bytes_requested_by(BOB) == 0


def test_below_the_level_there_are_no_tokens() -> None:
    cluster = Cluster(DelegationTokenSet.level - 1)
    new = CreateToken("t", ALICE, ALICE, (), HOUR_MS, HOUR_MS)
    assert cluster.propose(new) is TokenRefusal.NOT_YET
    assert cluster.propose(RenewToken("t", ALICE, 1)) is TokenRefusal.NOT_FOUND
    assert cluster.propose(ExpireToken("t", ALICE, -1)) is TokenRefusal.NOT_FOUND
    assert not cluster.propose(RemoveExpiredTokens())
    event = DelegationTokenSet(DelegationToken("t", ALICE, ALICE, (), 1, 2, 2))
    assert needed_for([event]) == DelegationTokenSet.level
    assert needed_for([DelegationTokensRemoved(("t",))]) == DelegationTokenSet.level


TOKEN = DelegationToken("t", ALICE, ALICE, (), 1, 2, 2)


@pytest.mark.parametrize(
    "events",
    [
        [DelegationTokensRemoved(("none",))],
        [DelegationTokensRemoved(("known", "known"))],
        [DelegationTokensRemoved(("known",)), DelegationTokensRemoved(("known",))],
        [DelegationTokenSet(DelegationToken("", ALICE, ALICE, (), 1, 2, 2))],
        [DelegationTokenSet(DelegationToken("t", ALICE, ALICE, (), 1, 2, 3))],
    ],
)
def test_impossible_events_fail_their_trial(events: list[Event]) -> None:
    cluster = Cluster()
    cluster.create("known")
    with pytest.raises(StateBroken):
        Trial(cluster.state).check(events)


def test_the_fold_refuses_to_remove_what_is_not_there() -> None:
    with pytest.raises(StateBroken):
        Cluster().apply(DelegationTokensRemoved(("none",)))


def test_one_entry_may_set_and_remove_a_token() -> None:
    cluster = Cluster()
    events = [DelegationTokenSet(TOKEN), DelegationTokensRemoved(("t",))]
    Trial(cluster.state).check(events)
    cluster.apply(*events)
    assert len(cluster.state.tokens.ids) == 0


def test_a_snapshot_under_way_does_not_see_later_changes() -> None:
    cluster = Cluster()
    for number in range(600):
        cluster.create(f"{number}")
    before = cluster.state.encode()
    with cluster.state.frozen() as frozen:
        pieces: list[bytes] = []
        for number, piece in enumerate(frozen.pieces()):
            pieces.append(piece)
            cluster.propose(ExpireToken(f"{number}", ALICE, -1))
            cluster.propose(RenewToken("599", ALICE, 1_000 + number))
            cluster.create(f"new-{number}")
    assert b"".join(pieces) == before
    restored = ClusterState.decode(before)
    assert len(restored.tokens.ids) == restored.tokens.requested_by(ALICE) == 600
