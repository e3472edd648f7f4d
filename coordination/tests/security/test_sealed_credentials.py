"""Rules and fold of sealed SCRAM credentials, which are opaque bytes without the key."""

from __future__ import annotations

import msgspec
import pytest

from tests.security.test_acl_rules import Cluster, credential
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.gates import needed_for
from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.events.security import ScramCredentialSealed
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.scram import (
    MAX_SEALED_BYTES,
    AlterScramCredentials,
    Resealing,
    ScramDeletion,
    ScramRefusal,
    SealScramCredentials,
    size_bytes,
)
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.security.scram import KeptCredential, SealedCredential, fingerprint


def sealed(
    user: str = "bob", iterations: int = 4_096, content: bytes = b"x" * 96
) -> SealedCredential:
    return SealedCredential(user, 1, iterations, b"k" * 8, b"n" * 12, content)


def test_the_event_needs_its_level() -> None:
    event = ScramCredentialSealed("a", 1, 4_096, b"", b"", b"")
    assert needed_for([event]) == SEALS
    cluster = Cluster(SEALS - 1)
    cluster.propose(AlterScramCredentials([credential("bob")]))
    [kept] = cluster.state.scram
    change = AlterScramCredentials([credential("eve")], sealed=[sealed()])
    assert cluster.propose(change) == [None, ScramRefusal.NOT_YET]
    assert cluster.propose(SealScramCredentials([Resealing(fingerprint(kept), sealed())])) == 0


def test_they_are_set_replaced_and_removed() -> None:
    cluster = Cluster()
    table = cluster.state.scram
    cluster.propose(AlterScramCredentials([credential("bob"), credential("eve")]))
    change = AlterScramCredentials([], [ScramDeletion("eve", 1)], [sealed()])
    assert cluster.propose(change) == [None, None]
    assert list(table) == [sealed()]
    assert table.version == 4
    cluster.check_replay()
    assert list(ClusterState.decode(cluster.state.encode()).scram) == [sealed()]
    cluster.propose(AlterScramCredentials([credential("bob")]))
    assert list(table) == [credential("bob")]
    cluster.propose(AlterScramCredentials([], [ScramDeletion("bob", 1)]))
    assert table.users == []


@pytest.mark.parametrize(
    "bad",
    [
        sealed(""),
        sealed(iterations=0),
        sealed(content=b"x" * (MAX_SEALED_BYTES + 1)),
        msgspec.structs.replace(sealed(), key_id=b""),
        msgspec.structs.replace(sealed(), nonce=b"n" * 13),
        msgspec.structs.replace(sealed(), mechanism=3),
    ],
)
def test_those_that_cannot_be_used(bad: SealedCredential) -> None:
    cluster = Cluster()
    assert cluster.propose(AlterScramCredentials([], sealed=[bad])) == [ScramRefusal.IMPOSSIBLE]
    assert cluster.state.scram.users == []


@pytest.mark.parametrize(
    "event",
    [
        ScramCredentialSealed("", 1, 4_096, b"k" * 8, b"n" * 12, b""),
        ScramCredentialSealed("bob", 3, 4_096, b"k" * 8, b"n" * 12, b""),
        ScramCredentialSealed("bob", 1, 0, b"k" * 8, b"n" * 12, b""),
    ],
)
def test_events_that_cannot_be(event: Event) -> None:
    with pytest.raises(StateBroken):
        Trial(Cluster().state).check([event])


def test_only_a_credential_that_is_still_the_same_is_sealed() -> None:
    cluster = Cluster()
    before = credential("bob")
    cluster.propose(AlterScramCredentials([before]))
    same = fingerprint(before)
    for wrong in (
        Resealing(fingerprint(credential("bob", 1, 5_000)), sealed()),
        Resealing(same, sealed("eve")),
        Resealing(same, sealed(iterations=5_000)),
        Resealing(same, msgspec.structs.replace(sealed(), nonce=b"")),
    ):
        assert cluster.propose(SealScramCredentials([wrong])) == 0
    assert list(cluster.state.scram) == [before]
    assert cluster.propose(SealScramCredentials([Resealing(same, sealed())])) == 1
    assert list(cluster.state.scram) == [sealed()]
    assert cluster.propose(SealScramCredentials([Resealing(same, sealed())])) == 0


def test_a_credential_that_is_another_one_now_is_not_removed() -> None:
    cluster = Cluster()
    cluster.propose(AlterScramCredentials([], sealed=[sealed()]))
    deletion = ScramDeletion("bob", 1, fingerprint(sealed()))
    cluster.propose(AlterScramCredentials([], sealed=[sealed(content=b"y" * 96)]))
    late = AlterScramCredentials([], [deletion])
    assert cluster.propose(late) == [ScramRefusal.NOT_FOUND]
    assert cluster.state.scram.users == ["bob"]
    cluster.propose(AlterScramCredentials([], sealed=[sealed()]))
    assert cluster.propose(late) == [None]
    assert cluster.state.scram.users == []


def test_many_are_sealed_in_parts() -> None:
    cluster = Cluster()
    plain = [credential(f"user-{number}") for number in range(2_000)]
    for part in parts(plain, size_bytes):
        cluster.propose(AlterScramCredentials(part))
    changes = [Resealing(fingerprint(each), sealed(each.user)) for each in plain]
    assert cluster.propose(SealScramCredentials(changes)) == 0
    cut = parts(changes, lambda each: size_bytes(each.after))
    assert sum(cluster.propose(SealScramCredentials(each)) for each in cut) == 2_000
    assert all(isinstance(each, SealedCredential) for each in cluster.state.scram)
    cluster.check_replay()


def test_a_fingerprint_tells_kinds_and_all_fields_apart() -> None:
    one = credential("bob")
    others: list[KeptCredential] = [
        msgspec.structs.replace(one, stored_key=b"z" * 32),
        msgspec.structs.replace(one, salt=b"z"),
        credential("bob", 2),
        sealed(),
    ]
    assert len({fingerprint(each) for each in [*others, one]}) == 5
