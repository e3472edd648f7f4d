"""metadata.version in the state: its snapshots, and what breaks it."""

from __future__ import annotations

import msgspec
import pytest

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import (
    decode_entry,
    encode_entry,
    encode_events,
)
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState

OLD = 1


def folded(version: int) -> ClusterState:
    state = ClusterState()
    events: list[ev.Event] = [ev.ClusterCreated("c", 1)]
    if version > 1:
        events.append(ev.MetadataVersionSet(version))
    events += [
        ev.GatewayRegistered(1, 1, "a", "", (), "0", 0),
        ev.GatewayRegistered(2, 2, "b", "", (), "0", 0, highest_version=2),
    ]
    state.apply(1, decode_entry(encode_entry(b"n", 0, 5, encode_events(events)), 1))
    return state


@pytest.mark.parametrize("version", [1, 2])
def test_snapshots_keep_the_level_and_the_highest_version_of_each_gateway(version: int) -> None:
    state = folded(version)
    again = ClusterState.decode(state.encode())
    assert again.encode() == state.encode()
    assert again.metadata_version == version
    assert [each.highest_version for each in again.gateways.brokers()] == [1, 2]
    assert again.entry_formats == range(version, 3)


def test_a_snapshot_of_level_1_is_one_that_older_releases_load() -> None:
    head = msgspec.msgpack.decode(folded(1).encode()[4:][: _head_length(folded(1))])
    assert head["format"] == 4
    assert {len(row) for row in head["gateways"]["live"]} == {12}


def test_a_snapshot_of_a_higher_level_is_refused_by_its_format() -> None:
    head = msgspec.msgpack.decode(folded(2).encode()[4:][: _head_length(folded(2))])
    assert head["format"] == 5
    with pytest.raises(ReleaseTooOld):
        ClusterState.decode(folded(2).encode(), OLD)


def _head_length(state: ClusterState) -> int:
    return int.from_bytes(state.encode()[:4])


def test_a_registration_of_an_older_release_reads_the_first_level() -> None:
    old = msgspec.msgpack.encode([2, 1, 1, "key", "az", [], "0", 0])
    event = msgspec.msgpack.decode(old, type=ev.GatewayRegistered)
    assert event.highest_version == 1


def test_a_log_whose_level_falls_is_broken() -> None:
    state = folded(2)
    events = encode_events([ev.MetadataVersionSet(2)])
    entry = decode_entry(encode_entry(b"n", 0, 5, events, entry_format=2, position=2), 2)
    with pytest.raises(StateBroken, match=r"metadata\.version falls"):
        state.apply(2, entry)
