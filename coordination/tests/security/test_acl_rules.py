"""Rules of ACLs and SCRAM credentials, and what the fold makes of their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.rules.test_wal_rules import World
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.gates import needed_for
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_coordination.events.security import (
    AclsChanged,
    ScramCredentialRemoved,
    ScramCredentialSet,
)
from tidegate_coordination.rules.security import acls as rules
from tidegate_coordination.rules.security.acls import (
    AclRefusal,
    CreateAcls,
    DeleteAcls,
    RemovedAcls,
)
from tidegate_coordination.rules.security.parts import MAX_PART_BYTES, is_one_part, parts
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    ScramDeletion,
    ScramRefusal,
    size_bytes,
)
from tidegate_coordination.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.security.scram import ScramCredential, ScramMechanism

A = Acl(2, 3, "a", "User:bob", "*", 3, 3)
B = Acl(3, 4, "b", "User:*", "10.0.0.1", 2, 2)
C = Acl(2, 3, "a", "User:eve", "*", 3, 3)
ENTRY_BYTES = 1 << 20


def credential(user: str, mechanism: int = 1, iterations: int = 4_096) -> ScramCredential:
    return ScramCredential(user, mechanism, b"s" * 16, b"k" * 32, b"v" * 32, iterations)


class Cluster(World):
    def propose(self, proposal: Any) -> Any:
        decided = proposal.decide(self.view())
        Trial(self.state).check(decided.events)
        if decided.events:
            self.apply(*decided.events)
        return decided.answer

    @property
    def rows(self) -> list[Acl]:
        return list(self.state.acls)


def test_acls_are_added_once() -> None:
    cluster = Cluster()
    assert cluster.propose(CreateAcls((A, B, A))) is None
    assert cluster.rows == [A, B]
    version = cluster.state.acls.version
    assert CreateAcls((B,)).decide(cluster.view()).events == ()
    assert cluster.propose(CreateAcls((C, B))) is None
    assert cluster.rows == [A, B, C]
    assert cluster.state.acls.version > version
    assert cluster.state.acls.index.may("User:eve", "h", Operation.READ, 2, "a") is True
    cluster.check_replay()


def test_the_log_has_plain_numbers() -> None:
    named = Acl(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        "n",
        "User:a",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    cluster = Cluster()
    assert cluster.propose(CreateAcls((named,))) is None
    assert cluster.rows == [named]


def test_acls_that_cannot_be_are_not_added() -> None:
    cluster = Cluster()
    bad = Acl(2, 3, "", "User:bob", "*", 3, 3)
    assert cluster.propose(CreateAcls((A, bad))) is AclRefusal.IMPOSSIBLE
    assert cluster.rows == []


def test_a_filter_removes_what_it_matches() -> None:
    cluster = Cluster()
    cluster.propose(CreateAcls((A, B, C)))
    everything, of_a = AclFilter(), AclFilter(name="a")
    answer = cluster.propose(DeleteAcls((of_a, AclFilter(principal="User:eve"))))
    assert answer == RemovedAcls((A, C), ((0, 1), (1,)), is_all=True)
    assert cluster.rows == [B]
    assert cluster.state.acls.index.may("User:eve", "h", Operation.READ, 2, "a") is None
    assert DeleteAcls((of_a,)).decide(cluster.view()).events == ()
    assert cluster.propose(DeleteAcls((everything,))).acls == (B,)
    assert len(cluster.state.acls) == 0
    cluster.check_replay()


def many(count: int, name_length: int = 60) -> list[Acl]:
    return [Acl(2, 3, f"{n}".zfill(name_length), "User:bob", "*", 3, 3) for n in range(count)]


def add(cluster: Cluster, rows: Sequence[Acl]) -> None:
    for part in parts(rows, lambda each: each.size_bytes):
        assert cluster.propose(CreateAcls(part)) is None


def test_a_long_list_goes_in_parts_and_each_fits_an_entry() -> None:
    cluster, rows = Cluster(), many(rules.MAX_REMOVED)
    assert cluster.propose(CreateAcls(rows)) is AclRefusal.TOO_LARGE
    add(cluster, rows)
    removed: list[Acl] = []
    answers: list[RemovedAcls] = []
    while not answers or not answers[-1].is_all:
        answers.append(cluster.propose(DeleteAcls((AclFilter(), AclFilter(resource_type=2)))))
        removed += answers[-1].acls
        first, second = answers[-1].matched
        assert first == second == tuple(range(len(answers[-1].acls)))
    assert removed == rows
    assert len(answers) > 5
    assert max(map(len, cluster.entries)) < ENTRY_BYTES // 4


def test_an_acl_with_the_longest_texts_fits_an_entry() -> None:
    cluster, text = Cluster(), "x" * 32_767
    long = Acl(2, 3, text, "User:" + text[5:], text, 3, 3)
    assert cluster.propose(CreateAcls((long,))) is None
    assert cluster.propose(CreateAcls((A, long))) is None
    assert cluster.propose(DeleteAcls((AclFilter(),) * 100)).acls == (long, A)
    assert max(map(len, cluster.entries)) < ENTRY_BYTES // 2


def test_one_request_removes_a_bounded_number() -> None:
    cluster, rows = Cluster(), many(rules.MAX_REMOVED + 1, name_length=6)
    add(cluster, rows)
    assert cluster.propose(DeleteAcls((AclFilter(),))) is AclRefusal.TOO_MANY
    assert len(cluster.state.acls) == len(rows)


def test_one_request_looks_at_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_LOOKS", 99)
    cluster = Cluster()
    add(cluster, many(50, name_length=6))
    nothing = AclFilter(principal="User:nobody")
    assert cluster.propose(DeleteAcls((nothing,) * 2)) is AclRefusal.TOO_MUCH_WORK
    assert cluster.propose(DeleteAcls((nothing,))) == RemovedAcls((), ((),), is_all=True)
    by_name = AclFilter(name="000001")
    assert len(cluster.propose(DeleteAcls((by_name,) * 90)).acls) == 1


def test_nothing_of_it_below_its_level() -> None:
    cluster = Cluster(SECURITY - 1)
    assert cluster.propose(CreateAcls((A,))) is AclRefusal.NOT_YET
    assert cluster.propose(DeleteAcls((AclFilter(),))) is AclRefusal.NOT_YET
    change = AlterScramCredentials((credential("a"),), (ScramDeletion("b", 1),))
    assert cluster.propose(change) == [ScramRefusal.NOT_YET] * 2
    assert f"={SECURITY}" in rules.SECURITY_NOT_YET


@pytest.mark.parametrize(
    "event",
    [
        AclsChanged((), ()),
        ScramCredentialSet("a", 1, b"", b"", b"", 1),
        ScramCredentialRemoved("a", 1),
    ],
)
def test_the_events_need_their_level(event: Event) -> None:
    assert needed_for([event]) == SECURITY


@pytest.mark.parametrize(
    "events",
    [
        [AclsChanged((A,), ())],
        [AclsChanged((), (C,))],
        [AclsChanged((), (A, A))],
        [AclsChanged((C, C), ())],
        [AclsChanged((), (A,)), AclsChanged((), (A,))],
        [AclsChanged((Acl(9, 3, "a", "User:bob", "*", 3, 3),), ())],
        [ScramCredentialRemoved("nobody", 1)],
        [ScramCredentialRemoved("bob", 2)],
        [ScramCredentialRemoved("bob", 1), ScramCredentialRemoved("bob", 1)],
        [ScramCredentialSet("bob", 3, b"", b"", b"", 1)],
        [ScramCredentialSet("", 1, b"", b"", b"", 1)],
        [ScramCredentialSet("bob", 1, b"", b"", b"", 0)],
    ],
)
def test_events_that_contradict_the_state(events: list[Event]) -> None:
    cluster = Cluster()
    cluster.propose(CreateAcls((A, B)))
    cluster.propose(AlterScramCredentials((credential("bob"),)))
    with pytest.raises(StateBroken):
        Trial(cluster.state).check(events)


@pytest.mark.parametrize(
    "events",
    [
        [AclsChanged((A,), ())],
        [AclsChanged((), (C,))],
        [ScramCredentialRemoved("bob", 2)],
    ],
)
def test_the_fold_stops_at_them(events: list[Event]) -> None:
    cluster = Cluster()
    cluster.propose(CreateAcls((A, B)))
    with pytest.raises(StateBroken):
        cluster.apply(*events)


def test_one_entry_may_replace_acls() -> None:
    cluster = Cluster()
    cluster.propose(CreateAcls((A, B)))
    events = [AclsChanged((C,), (A,)), AclsChanged((A,), (C,))]
    Trial(cluster.state).check(events)
    cluster.apply(*events)
    assert set(cluster.rows) == {A, B}
    cluster.check_replay()


def test_credentials_are_set_replaced_and_removed() -> None:
    cluster = Cluster()
    table = cluster.state.scram
    assert cluster.propose(AlterScramCredentials((credential("bob"), credential("eve", 2)))) == [
        None,
        None,
    ]
    assert (table.users, table.version) == (["bob", "eve"], 2)
    assert table.get("eve", 1) is None
    assert table.get("eve", ScramMechanism.SCRAM_SHA_512) == credential("eve", 2)
    newer = credential("bob", 1, 8_192)
    change = AlterScramCredentials((newer,), (ScramDeletion("eve", 2), ScramDeletion("eve", 1)))
    assert cluster.propose(change) == [None, ScramRefusal.NOT_FOUND, None]
    assert (table.users, table.of_user("bob")) == (["bob"], [newer])
    cluster.check_replay()


def test_a_credential_that_is_removed_twice_is_removed_once() -> None:
    cluster = Cluster()
    cluster.propose(AlterScramCredentials((credential("bob"),)))
    twice = (ScramDeletion("bob", 1),) * 2
    assert cluster.propose(AlterScramCredentials((), twice)) == [None, None]
    assert cluster.state.scram.users == []


@pytest.mark.parametrize(
    "bad",
    [
        credential(""),
        credential("bob", 3),
        credential("bob", 1, 0),
        ScramCredential("bob", 1, b"s" * 1_025, b"k", b"v", 4_096),
        ScramCredential("bob", 1, b"s", b"k" * 65, b"v", 4_096),
    ],
)
def test_credentials_that_cannot_be_used(bad: ScramCredential) -> None:
    cluster = Cluster()
    change = AlterScramCredentials((bad, credential("eve")))
    assert cluster.propose(change) == [ScramRefusal.IMPOSSIBLE, None]
    assert cluster.state.scram.users == ["eve"]


def test_many_credentials_go_in_parts() -> None:
    cluster = Cluster()
    wanted = [credential(f"user-{number}") for number in range(3_000)]
    assert cluster.propose(AlterScramCredentials(wanted)) == [ScramRefusal.TOO_LARGE] * 3_000
    for part in parts(wanted, size_bytes):
        assert cluster.propose(AlterScramCredentials(part)) == [None] * len(part)
    assert len(cluster.state.scram.users) == 3_000
    cluster.check_replay()


def test_secrets_are_not_printed() -> None:
    secret = ScramCredential("bob", 1, b"salty", b"stored", b"server", 4_096)
    event = ScramCredentialSet("bob", 1, b"salty", b"stored", b"server", 4_096)
    for text in (repr(secret), str(secret), repr(event), f"{event}"):
        assert "bob" in text
        assert not any(each in text for each in ("salty", "stored", "server", "4096"))


def test_parts_keep_the_order_and_the_bound() -> None:
    sizes = [MAX_PART_BYTES // 2, MAX_PART_BYTES // 2, 1, 2 * MAX_PART_BYTES, 1, 1]
    cut = list(parts(sizes, lambda each: each))
    assert cut == [sizes[:2], [1], [2 * MAX_PART_BYTES], [1, 1]]
    assert all(is_one_part(each, lambda size: size) for each in cut)
    assert not is_one_part(sizes[:3], lambda size: size)
    assert list(parts([], lambda each: each)) == []


@pytest.mark.slow
def test_a_snapshot_under_way_does_not_see_later_changes() -> None:
    cluster = Cluster()
    add(cluster, many(3_000, name_length=6))
    cluster.propose(AlterScramCredentials((credential("bob"),)))
    before = cluster.state.encode()
    with cluster.state.frozen() as frozen:
        pieces: list[bytes] = []
        for number, piece in enumerate(frozen.pieces()):
            pieces.append(piece)
            cluster.propose(DeleteAcls((AclFilter(name=f"{number * 97:06}"),)))
            cluster.propose(CreateAcls((Acl(2, 3, f"new-{number}", "User:a", "*", 3, 3),)))
            cluster.propose(AlterScramCredentials((credential("bob", 1, 5_000 + number),)))
    assert len(pieces) > 5
    assert b"".join(pieces) == before
    restored = ClusterState.decode(before)
    assert len(restored.acls) == 3_000
    assert restored.acls.index.may("User:bob", "h", Operation.READ, 2, "000007") is True
    cluster.check_replay()
