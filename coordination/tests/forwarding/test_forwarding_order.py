"""Forwarding: the proposals of a question are decided in order, up to the first not accepted."""

from __future__ import annotations

import pytest
import trio.testing

from tests.worlds.forwarding_world import CLUSTER, forwarding_world
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding import codec, service
from tidegate_coordination.forwarding.messages import VERSION, Ask, Outcome, Sent
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, OffsetToCommit
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds

ROOM_BYTES = 1000
LARGE = codec.encode_proposal(
    CommitOffsets("g", 1, -1, (OffsetToCommit(b"t" * 16, 0, 1, -1, "x" * ROOM_BYTES),))
)
SMALL = codec.encode_proposal(ReserveProducerIds(1))


@pytest.mark.parametrize(
    ("left", "outcome"),
    [
        (Sent(51, "CommitOffsets", LARGE), Outcome.UNKNOWN),
        (Sent(51, "NoSuchKind", b""), Outcome.NEWER),
        (Sent(51, "ReserveProducerIds", SMALL, tenant=5), Outcome.NEWER),
    ],
    ids=["no room", "of a newer release", "of another tenant"],
)
async def test_no_proposal_overtakes_one_that_is_not_accepted(
    left: Sent,
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.setattr(service, "MAX_WAITING_BYTES", ROOM_BYTES)
    async with forwarding_world() as world:
        await world.start(1)
        before, behind = (Sent(each, "ReserveProducerIds", SMALL) for each in (50, 52))
        asked = Ask(VERSION, CLUSTER, 1, 0, 0, 0, [before, left, behind])
        told = await world.links.services[1].answer(asked)
        assert [each.outcome for each in told.answers] == [
            Outcome.ANSWERED,
            outcome,
            Outcome.UNKNOWN,
        ]
        numbers = [event.number for _, events in await world.entries() for event in events]
        assert numbers == [50]


async def test_waiting_registrations_count_towards_the_bound(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    body = codec.encode_proposal(Register(9, "key", "az1", endpoints, "0", CLUSTER, before=1000))
    monkeypatch.setattr(service, "MAX_WAITING_BYTES", 2 * len(body))
    async with forwarding_world() as world:
        await world.start(1)
        sent = [Sent(each, "Register", body) for each in (1, 2, 3)]
        asked = Ask(VERSION, CLUSTER, 0, 0, 0, 0, sent)
        for _ in range(2):  # answered proposals take no room
            told = await world.links.services[1].answer(asked)
            assert [each.outcome for each in told.answers] == [
                Outcome.ANSWERED,
                Outcome.ANSWERED,
                Outcome.UNKNOWN,
            ]
