"""Messages between gateways about shares, and those that a gateway refuses."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tests.worlds.quotas.share_world import KEY, QUOTA, ShareWorld, done
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.static_settings import Told
from tidegate_gateway.peers.peer_service import PeerService
from tidegate_gateway.peers.peers import granted_shares
from tidegate_gateway.peers.share_service import ShareService
from tidegate_gateway.quotas.sharing.messages import (
    MAX_MESSAGE_BYTES,
    MAX_MISSED,
    MAX_WISHES,
    SHARES_PATH,
    VERSION,
    Asked,
    Granted,
    NotShares,
    Wish,
    decode_asked,
    decode_granted,
    encode,
    key_of,
)
from tidegate_gateway.quotas.sharing.scope import Scope, refuse_scope_without_peers
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.http.values import HttpAnswer, HttpRequest
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

WISH = Wish(KEY, QUOTA, 100.0, 50.0)


def asked(*wishes: Wish, cluster_id: str = "c", **more: Any) -> Asked:
    return Asked(**{"version": VERSION, "missed": [3], **more}, cluster_id=cluster_id,
                 incarnation=2, wishes=list(wishes))  # fmt: skip


def test_messages_arrive_as_they_were_sent_and_the_largest_fit() -> None:
    question = asked(*[Wish(KEY, 1e15, 1e15, 1e15)] * MAX_WISHES, missed=[2**40] * MAX_MISSED)
    assert decode_asked(encode(question)) == question
    assert len(encode(question)) <= MAX_MESSAGE_BYTES
    answer = Granted(VERSION, [2**40] * MAX_MISSED, [1e15] * MAX_WISHES)
    assert decode_granted(encode(answer), MAX_WISHES) == answer
    assert len(encode(answer)) <= MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "question",
    [
        asked(*[WISH] * (MAX_WISHES + 1)),
        asked(missed=[1] * (MAX_MISSED + 1)),
        asked(version=2),
    ],
)
def test_a_question_that_is_too_large_or_of_another_version_is_refused(question: Asked) -> None:
    with pytest.raises(NotShares):
        decode_asked(encode(question))


@pytest.mark.parametrize(
    "wish",
    [
        Wish(b"short", 1, 1, 1),
        Wish(KEY, 0, 1, 1),
        Wish(KEY, 1, -1, 1),
        Wish(KEY, 1, 1, float("nan")),
        Wish(KEY, float("inf"), 1, 1),
    ],
)
def test_a_wish_with_a_wrong_value_gets_nothing_and_takes_nothing_from_others(wish: Wish) -> None:
    world = ShareWorld([0, 0, 0])
    world.run(2)
    question = decode_asked(encode(asked(wish, WISH)))
    assert done(world.owner.shares.answer(question, world.now_ms)).shares == [None, WISH.held]


def test_a_late_question_gets_nothing_and_changes_nothing() -> None:
    world = ShareWorld([0, 0, 0])
    world.run(4)  # the owner has learned
    owner, now_ms = world.owner.shares, world.now_ms
    asker, other = (each for each in world.nodes if each != world.owner.incarnation)
    wants_all = Wish(KEY, QUOTA, QUOTA, QUOTA)
    newer = msgspec.structs.replace(asked(wants_all), incarnation=asker, asked_ms=700, missed=[])
    done(owner.answer(newer, now_ms))
    older = msgspec.structs.replace(
        asked(Wish(KEY, QUOTA, 0, 3)), incarnation=asker, asked_ms=200, missed=[other]
    )
    assert done(owner.answer(decode_asked(encode(older)), now_ms)).shares == [None]
    assert not owner.membership.suspects
    # The older question gave the share back, but the newer one counts: the asker holds the share.
    question = msgspec.structs.replace(newer, incarnation=other, wishes=[WISH])
    share = done(owner.answer(question, now_ms)).shares[0]
    assert share is not None
    assert share < QUOTA * 0.01
    # A gateway of an older release tells no time, and is answered.
    untold = msgspec.structs.replace(older, asked_ms=0)
    assert done(owner.answer(untold, now_ms)).shares != [None]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no message",
        msgspec.msgpack.encode([VERSION]),
        encode(Granted(VERSION, [], [1.0, 2.0])),
        encode(Granted(VERSION, [], [float("nan")])),
        encode(Granted(VERSION, [], [-1.0])),
        encode(Granted(2, [], [1.0])),
    ],
)
def test_an_answer_that_answers_something_else_is_no_answer(data: bytes) -> None:
    with pytest.raises(NotShares):
        decode_granted(data, 1)
    with pytest.raises(PeerUnavailable):
        granted_shares("node1:9644", HttpAnswer(200, data), asked(WISH))


def test_names_of_quotas_do_not_run_into_each_other() -> None:
    names = [("Produce", "ab", "c"), ("Produce", "a", "bc"), ("Produce", "", "abc")]
    names += [("Fetch", "ab", "c"), ("Produce", "ab", ""), ("Produce", "", "ab")]
    assert len({key_of(*each) for each in names}) == len(names)


@pytest.mark.parametrize(
    ("method", "body", "status", "words"),
    [
        ("POST", encode(asked(WISH)), 200, b""),
        ("GET", b"", 405, b"with POST"),
        ("POST", b"no message", 400, b"not a message about shares"),
        ("POST", encode(asked(WISH, cluster_id="d")), 409, b"another cluster"),
        ("POST", bytes(MAX_MESSAGE_BYTES + 1), 413, b"too large"),
    ],
)
async def test_a_question_is_answered_or_refused_with_a_sentence(
    method: str, body: bytes, status: int, words: bytes
) -> None:
    service = ShareService(ShareWorld([0, 0, 0]).nodes[1].shares)
    answer = await service.answer(HttpRequest(method, SHARES_PATH, body=body))
    assert (answer.status, words in answer.body) == (status, True)


async def test_a_gateway_that_shares_no_quotas_says_so_and_the_token_is_needed() -> None:
    log = MemoryLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: 1e6)
    service = PeerService(coordinator, log, Secret("secret"))
    request = HttpRequest("POST", SHARES_PATH, body=encode(asked(WISH)))
    assert (await service.handle(request)).status == 401
    known = HttpRequest(
        "POST", SHARES_PATH, (("Authorization", "Bearer secret"),), encode(asked(WISH))
    )
    answer = await service.handle(known)
    assert answer.status == 403
    assert b"quota.scope=broker" in answer.body


def test_quotas_are_not_shared_without_a_peer_listener() -> None:
    refuse_scope_without_peers(BrokerSettings({}))
    refuse_scope_without_peers(
        BrokerSettings({"quota.scope": "cluster", "peer.listener": "127.0.0.1:0"})
    )
    with pytest.raises(SettingsError, match=r"quota.scope=cluster needs peer.listener=host:port"):
        refuse_scope_without_peers(BrokerSettings({"quota.scope": "cluster"}))


def test_one_live_gateway_is_enough_to_share_quotas() -> None:
    world = ShareWorld([0, 0])
    state = ClusterState()
    state.gateways = world.table  # type: ignore[misc, assignment]
    world.table.brokers = lambda: list(world.table.live.values())
    scope = Scope(state, own=False)
    assert not scope.of_cluster()
    state.static_settings.by_node_id[2] = Told({"quota.scope": "cluster"})
    state.static_settings.version += 1
    assert scope.of_cluster()
    del world.table.live[2]
    world.table.version += 1
    assert not scope.of_cluster()
    assert Scope(state, own=True).of_cluster()
