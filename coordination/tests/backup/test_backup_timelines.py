"""Timelines: markers in the store, and the effect of opening one on the state."""

from __future__ import annotations

import pytest
import trio

from tests.worlds.backup_world import CLUSTER, batch_of, memory_store, replayed, writers
from tidegate_coordination.backup.salvage_rules import SequenceIndex, gaps_of
from tidegate_coordination.events.cluster import WalCommitted
from tidegate_coordination.events.entries import ENTRY_FORMAT, AnyEvent, Entry
from tidegate_coordination.events.restores import (
    FormerLife,
    FormerLivesFound,
    SalvageEnded,
    TimelineOpened,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.producers import MAX_SEQUENCE, KeptBatch, ProducerState
from tidegate_storage.objects.keys import (
    backup_prefix,
    parse_timeline_key,
    timeline_key,
    unplaced_key,
    wal_key,
)
from tidegate_storage.objects.ownership import Owner, newest_timeline, open_timeline
from tidegate_storage.stores.object_store import StoreMisconfigured

OWNER = Owner(CLUSTER, 1, "0")
OPENED = TimelineOpened(2, 1000, 5000, "one")


def fold(state: ClusterState, *events: AnyEvent) -> None:
    state.apply(state.position + 1, Entry(ENTRY_FORMAT, b"", 0, 1, events))


async def a_state() -> ClusterState:
    """Two live gateways, one of which has committed an object."""
    log = MemoryLog()
    async with writers(log, memory_store(), 1, 2) as [first, _]:
        await first.create_topic("t")
        await first.write(("t", batch_of(b"a")))
    return await replayed(log)


def test_names() -> None:
    assert parse_timeline_key(timeline_key(12)) == 12
    for wrong in ("tidegate-timelines/12.json", "tidegate-timelines/x.json", "other"):
        with pytest.raises(ValueError):
            parse_timeline_key(wrong)
    assert backup_prefix("c", 3) == "c/3/backup/"
    key = wal_key("c", 1, "az", 1, 2, 3)
    assert unplaced_key("c", 2, key) == "c/2/unplaced/1/wal/az/1-2/000000000003"


async def test_restores_at_once_get_timelines_of_their_own() -> None:
    store = memory_store()
    opened: list[int] = []

    async def open_one(number: int) -> None:
        opened.append(await open_timeline(store, OWNER, above=1, opened_by="0", nonce=str(number)))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(open_one, number)
    assert sorted(opened) == [2, 3, 4, 5, 6]
    assert await newest_timeline(store, OWNER) == 6
    assert await open_timeline(store, OWNER, above=9, opened_by="0", nonce="last") == 10


async def test_foreign_objects_between_the_markers_are_refused() -> None:
    store = memory_store()
    await store.put("tidegate-timelines/readme.txt", b"")
    with pytest.raises(StoreMisconfigured, match="was not written by Tidegate: remove it"):
        await newest_timeline(store, OWNER)


async def test_opening_a_timeline_ends_all_incarnations_and_skips_assigned_numbers() -> None:
    state = await a_state()
    fold(state, OPENED)
    assert not state.gateways.live
    assert (state.timeline, state.gateways.next_incarnation) == (2, 1000)
    assert state.producer_ids.next_id == 5000
    assert not state.producer_ids.is_young(4999)
    assert state.timelines.salvageable == {1, 2}
    assert [state.timeline_of(each) for each in (1, 2, 1000)] == [1, 1, 2]
    fold(state, FormerLivesFound("one", (FormerLife(7, 3, "az2", 1),)))
    assert state.gateways.homes[7] == (3, "az2")
    again = ClusterState.decode(state.encode())
    assert again.encode() == state.encode()
    fold(again, SalvageEnded("one", 9000))
    assert not again.timelines.is_restoring
    assert again.producer_ids.next_id == 9000
    # Of the objects of an earlier incarnation, the state keeps only their location.
    assert again.timeline_of(7) == 1
    assert ClusterState.decode(again.encode()).encode() == again.encode()


@pytest.mark.parametrize(
    "event",
    [
        OPENED,
        TimelineOpened(3, 999, 0, "two"),
        FormerLivesFound("another", (FormerLife(7, 3, "az2", 1),)),
        FormerLivesFound("one", (FormerLife(1, 1, "az1", 1),)),
        FormerLivesFound("one", (FormerLife(1000, 1, "az1", 1),)),
        SalvageEnded("another", 0),
        WalCommitted(1, 0, 10, (), ()),
    ],
)
async def test_events_that_cannot_follow_stop_the_fold(event: AnyEvent) -> None:
    state = await a_state()
    fold(state, OPENED)
    with pytest.raises(StateBroken):
        fold(state, event)


async def test_salvage_ends_once() -> None:
    state = await a_state()
    fold(state, OPENED)
    fold(state, SalvageEnded("one", 0))
    assert state.producer_ids.next_id == 5000
    with pytest.raises(StateBroken, match="never began"):
        fold(state, SalvageEnded("one", 0))


def facts(first: int, last: int, *, epoch: int = 0) -> BatchFacts:
    count = (last - first) & MAX_SEQUENCE
    return BatchFacts(b"t".ljust(16, b"\0"), 0, 0, 70, count + 1, 0, 0, 5, epoch, first, last)


@pytest.mark.parametrize(
    ("batch", "is_gap"),
    [
        (facts(10, 19), False),  # the next batch
        (facts(0, 9), False),  # a repeat
        (facts(11, 12), True),
        (facts(3, 9, epoch=1), True),
        (facts(0, 9, epoch=1), False),
        (facts(7, 9, epoch=-1), False),  # an old epoch: the rules refuse it
    ],
)
async def test_gaps(batch: BatchFacts, is_gap: bool) -> None:
    state = await a_state()
    state.partitions[0].producers[5] = ProducerState(0, (KeptBatch(0, 9, 0, -1),), 0)
    index = SequenceIndex(lambda _: True)
    assert bool(gaps_of(state, 1, [batch], index).bridges) is is_gap
    before = batch._replace(
        first_sequence=0, last_sequence=(batch.first_sequence - 1) & MAX_SEQUENCE
    )
    index.add(1, [before])  # earlier in the same incarnation: committed, or refused then
    assert gaps_of(state, 1, [batch], index) == gaps_of(state, 1, [], index)
    index.add(2, [before])
    assert gaps_of(state, 1, [batch], index).waits is is_gap


async def test_sequences_wrap() -> None:
    state = await a_state()
    kept = KeptBatch(MAX_SEQUENCE - 1, MAX_SEQUENCE, 0, -1)
    state.partitions[0].producers[5] = ProducerState(0, (kept,), 0)
    index = SequenceIndex(lambda _: True)
    assert not gaps_of(state, 1, [facts(0, 4)], index).bridges
    [bridge] = gaps_of(state, 1, [facts(2, 4)], index).bridges.values()
    assert bridge.expected_sequence() == 2
