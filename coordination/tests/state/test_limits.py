"""Numbers that only rise: before one runs out, requests are refused, and the log continues."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import cast

import pytest
import trio

from tests.rules.test_wal_rules import TOPIC, World, batch, commit_of, offsets
from tests.worlds.near_limits import moved_up
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.metadata_versions import NEWEST, WIDE_NUMBERS
from tidegate_coordination.log.metadata_log import Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, Refusal
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.columns import MAX_INT64, MAX_OBJECTS, MAX_UINT32
from tidegate_coordination.state.records.objects import WalName, WalStatus

OLDER = WIDE_NUMBERS - 1
CLAIMED = 2**31 - 1


def begun(version: int = NEWEST) -> ClusterState:
    world = World(version)
    world.apply(ev.ClusterCreated("c" * 22, 1))
    return world.state


@asynccontextmanager
async def gateway_on(state: ClusterState) -> AsyncIterator[Coordinator]:
    """Run gateway 1 on that state.

    At the end a second gateway and a restart must have the same state.
    """
    log = MemoryLog()
    await log.trim(state.position + 1)
    data = state.encode()
    one = Coordinator(log, state, rng=Random(1), wall_clock=lambda: 1_000.0)
    one.incarnation = 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        yield one
        nursery.cancel_scope.cancel()
    other = ClusterState.decode(data)
    entries = await log.read(other.position + 1, 1 << 20)
    assert not isinstance(entries, Trimmed)
    for each in entries:
        other.apply(each.position, decode_entry(each.payload, each.position, other.entry_formats))
    assert other.encode() == one.state.encode()
    assert ClusterState.decode(other.encode()).encode() == other.encode()


def claiming(count: int, partition: int = 0) -> BatchFacts:
    """A batch that claims to have `count` records."""
    return BatchFacts(TOPIC, partition, 60, 100, count, 1, 7, -1, -1, -1, -1)


async def test_object_numbers_continue_after_32_bits() -> None:
    state = moved_up(begun(), next_object=MAX_UINT32 - 1)
    async with gateway_on(state) as one:
        for counter in range(4):
            await one.propose(CommitWal(WalName(1, counter), 200, [claiming(1)]))
        runs = state.partitions[0].runs
        numbers = [runs[at].object_number for at in range(4)]
    assert numbers == [MAX_UINT32 - 1, MAX_UINT32, MAX_UINT32 + 1, MAX_UINT32 + 2]
    assert [state.objects.name(each) for each in numbers] == [WalName(1, at) for at in range(4)]


@pytest.mark.parametrize(
    ("version", "last", "text"),
    [
        (OLDER, MAX_UINT32, r"raise tidegate\.metadata\.version to 3"),
        (NEWEST, MAX_OBJECTS, "has run out"),
    ],
)
async def test_the_last_object_is_followed_by_a_sentence(
    version: int, last: int, text: str
) -> None:
    state = moved_up(begun(version), next_object=last - 1)
    async with gateway_on(state) as one:
        await one.propose(CommitWal(WalName(1, 0), 200, [claiming(1)]))
        with pytest.raises(ProposalFailed, match=text):
            await one.propose(CommitWal(WalName(1, 1), 200, [claiming(1)]))
        with pytest.raises(ProposalFailed, match=text):
            await one.propose(AbandonWal(WalName(1, 2)))
        await one.propose(CreateTopics([NewTopic(b"n" * 16, "goes-on")]))


async def test_wal_ids_of_a_long_incarnation_continue_after_32_bits() -> None:
    state = moved_up(begun(), counters={1: MAX_UINT32})
    async with gateway_on(state) as one:
        for counter in (MAX_UINT32 + 1, MAX_UINT32):
            await one.propose(CommitWal(WalName(1, counter), 200, [claiming(1)]))
        assert await one.propose(AbandonWal(WalName(1, MAX_UINT32 + 2)))
    assert state.objects.wal_status(WalName(1, MAX_UINT32 + 1)) is WalStatus.COMMITTED
    older = moved_up(begun(OLDER), counters={1: MAX_UINT32})
    async with gateway_on(older) as one:
        await one.propose(CommitWal(WalName(1, MAX_UINT32), 200, [claiming(1)]))
        with pytest.raises(ProposalFailed, match="raise tidegate"):
            await one.propose(CommitWal(WalName(1, MAX_UINT32 + 1), 200, [claiming(1)]))


@pytest.mark.parametrize(
    ("version", "refusal"), [(NEWEST, Refusal.OFFSETS_RUN_OUT), (OLDER, Refusal.ABANDONED)]
)
async def test_a_batch_without_offsets_is_refused_and_its_neighbours_are_not(
    version: int, refusal: Refusal
) -> None:
    state = moved_up(begun(version), next_offsets={0: MAX_INT64 - CLAIMED - 1})
    batches = [claiming(CLAIMED), claiming(CLAIMED), claiming(1), claiming(1), claiming(5, 1)]
    async with gateway_on(state) as one:
        outcomes = await one.propose(CommitWal(WalName(1, 0), 200, batches))
    last = MAX_INT64 - 1
    assert offsets(outcomes) == [last - CLAIMED, refusal, last, refusal, 0]
    assert state.partitions[0].next_offset == MAX_INT64


async def test_a_repeat_of_the_batch_with_the_last_offsets_is_known() -> None:
    state = moved_up(begun(), next_offsets={0: MAX_INT64 - 2})
    async with gateway_on(state) as one:
        for counter, expected in enumerate((MAX_INT64 - 2, MAX_INT64 - 2)):
            facts = [batch(0, 2, producer=5)]
            [outcome] = await one.propose(commit_of(WalName(1, counter), facts))
            assert outcome.base_offset == expected
        facts = [batch(2, 2, producer=5)]
        [outcome] = await one.propose(commit_of(WalName(1, 2), facts))
        assert outcome.refusal is Refusal.OFFSETS_RUN_OUT
    assert state.partitions[0].producers[5].expected_sequence() == 2  # the last batch was refused


async def test_many_claims_of_one_run_are_more_than_32_bits() -> None:
    async with gateway_on(begun()) as one:
        batches = [claiming(CLAIMED)._replace(position=60 + 100 * at) for at in range(4)]
        outcomes = await one.propose(CommitWal(WalName(1, 0), 200, batches))
        assert offsets(outcomes) == [at * CLAIMED for at in range(4)]


async def test_other_numbers_that_run_out_are_refused_with_an_error() -> None:
    state = moved_up(
        begun(),
        next_incarnation=MAX_UINT32,
        next_partition=MAX_UINT32 - 2,
        next_producer_id=MAX_INT64 - 5,
    )
    state.producer_ids.fold_expired(MAX_INT64)
    async with gateway_on(state) as one:
        with pytest.raises(ProposalFailed, match="incarnations have run out"):
            await one.propose(Register(7, "k7", "az", (), "0", "c", highest_version=NEWEST))
        with pytest.raises(ProposalFailed, match="partitions have run out"):
            await one.propose(CreateTopics([NewTopic(b"n" * 16, "n", partition_count=9)]))
        with pytest.raises(ProposalFailed):
            await one.propose(ReserveProducerIds(1000))


# -- snapshots ------------------------------------------------------------------------------------


def with_runs(version: int) -> World:
    world = World(version)
    for _ in range(70):
        world.commit(batch(), batch(partition=1))
    world.apply(ev.LogStartsMoved(((0, 66), (1, 3))))
    return world


@pytest.mark.parametrize("version", [OLDER, NEWEST])
def test_a_snapshot_of_any_level_is_the_state(version: int) -> None:
    world = with_runs(version)
    again = ClusterState.decode(world.state.encode())
    assert again.encode() == world.state.encode()
    for number in (0, 1):
        live, loaded = world.state.partitions[number].runs, again.partitions[number].runs
        assert [live[at] for at in range(len(live))] == [loaded[at] for at in range(len(loaded))]
    numbers = list(world.state.objects.numbers())
    assert [again.objects.name(each) for each in numbers] == [
        world.state.objects.name(each) for each in numbers
    ]


def test_runs_of_format_5_are_as_they_were() -> None:
    """The bytes must not change, because older releases load them."""
    runs = with_runs(OLDER).state.partitions[0].runs
    end_offset, base, rest = cast("tuple[int, bytes, bytes]", runs.encode(is_wide=False))
    assert (end_offset, len(base)) == (70, 4 * 8)
    old = struct.Struct("<IIIqIB")
    for at in range(4):
        row = runs[at]
        assert old.unpack_from(rest, at * old.size) == row[2:]
    assert len(rest) == 4 * old.size


def test_a_raise_between_two_pieces_of_a_snapshot_changes_nothing_in_it() -> None:
    world = with_runs(OLDER)
    expected = world.state.encode()
    with world.state.frozen() as frozen:
        pieces = frozen.pieces()
        head = next(pieces)
        world.apply(ev.MetadataVersionSet(WIDE_NUMBERS))
        assert head + b"".join(pieces) == expected
    assert ClusterState.decode(expected).metadata_version == OLDER
