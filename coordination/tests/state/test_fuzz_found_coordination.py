"""Bugs that fuzzing found in coordination, each as the smallest input that showed it."""

from __future__ import annotations

import pytest

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import (
    UnreadableEntry,
    decode_entry,
    encode_entry,
    encode_events,
    entry_nonce,
)
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.joining import MAX_ID_BYTES, join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.values import Answer, JoinAnswer, JoinRequest
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState


def test_a_text_that_is_not_utf_8_makes_an_entry_unreadable() -> None:
    events = encode_events([ev.ClaimReleased("group/some-group")])
    damaged = encode_entry(b"nonce", 1, 1, events).replace(b"some-group", b"some\xffgroup")
    with pytest.raises(UnreadableEntry, match="entry 5 cannot be read"):
        decode_entry(damaged, 5)


def test_arrays_without_end_make_an_entry_unreadable() -> None:
    nested = encode_entry(b"nonce", 1, 1, []).removesuffix(b"\x90") + b"\x91" * 100_000
    with pytest.raises(UnreadableEntry, match="entry 5 cannot be read"):
        decode_entry(nested, 5)
    with pytest.raises(UnreadableEntry, match="not an entry"):
        entry_nonce(nested)


@pytest.mark.parametrize(
    "event",
    [
        ev.LogStartsMoved(((32, 1),)),
        ev.WalCommitted(-2, 0, 1, (), ()),
        ev.WalCommitted(1, 0, 1, (ev.Run(0, -1, 70, 0, 2, 1, 7, 0),), ()),
        ev.WalCommitted(1, 0, 1, (), (ev.ProducerBatch(0, 5, 0, 0, 1, 0),)),
    ],
    ids=["unknown partition", "incarnation", "position", "producer without a run"],
)
def test_an_event_that_does_not_fit_breaks_the_state(event: ev.Event) -> None:
    """For any defect the gateway stops and names the position."""
    state = ClusterState()
    endpoint = ev.Endpoint("PLAINTEXT", "h", 1)
    begin = [
        ev.ClusterCreated("c" * 22, 1),
        ev.GatewayRegistered(1, 1, "k", "z", (endpoint,), "1", 0),
        ev.TopicCreated(bytes(16), "t", 1, 1, {}),
    ]
    state.apply(1, decode_entry(encode_entry(b"n", 0, 1, encode_events(begin)), 1))
    entry = decode_entry(encode_entry(b"n", 1, 1, encode_events([event])), 2)
    with pytest.raises(StateBroken, match="metadata log entry 2"):
        state.apply(2, entry)


@pytest.mark.parametrize("text", ["c" * 32_767, "é" * 16_383, "a"])
@pytest.mark.parametrize("is_static", [False, True])
def test_a_member_id_fits_a_string(text: str, is_static: bool) -> None:
    group = ClassicGroup("g", 1, GroupSettings())
    fresh = "00000000-0000-4000-8000-000000000000"
    request = JoinRequest(
        "",
        text if is_static else None,
        "short" if is_static else text,
        "host",
        10_000,
        10_000,
        "consumer",
        (("range", b""),),
        fresh,
        requires_known_id=not is_static,
    )
    join(group, request, ticket=1, now=0.0)
    ids = [
        each.value.member_id
        for each in group.take_effects()
        if isinstance(each, Answer) and isinstance(each.value, JoinAnswer)
    ] or list(group.roster.members)
    [member_id] = ids
    assert member_id.endswith(f"-{fresh}")
    assert member_id.startswith(text[:1000])
    assert len(member_id.encode()) <= MAX_ID_BYTES
