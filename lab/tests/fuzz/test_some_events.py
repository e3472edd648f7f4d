"""The fuzzer's entries: without an event of a type, its fold is never fuzzed."""

from __future__ import annotations

from tidegate_coordination.events.entries import EVENTS, decode_entry, encode_entry, encode_events
from tidegate_coordination.state.cluster import ClusterState
from tidegate_fuzz.some_events import some_entries, some_events


def test_there_is_an_event_of_each_type() -> None:
    assert {type(each) for each in some_events()} == set(EVENTS)


def test_all_of_them_can_be_folded_one_after_the_other() -> None:
    state = ClusterState()
    for position, (writer, each) in enumerate(some_entries(), 1):
        data = encode_entry(b"n", writer, 1_000, encode_events([each]), position=position)
        state.apply(position, decode_entry(data, position))
        encoded = state.encode()
        assert ClusterState.decode(encoded).encode() == encoded
