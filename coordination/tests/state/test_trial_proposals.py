"""For any proposal, and numbers near their bounds, drafted events can be folded."""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rules.test_wal_rules import TOPIC, World, batch
from tests.worlds.near_limits import moved_up
from tidegate_coordination.coordinator.drafts import CannotCommit, Draft
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import decode_entry, encode_entry
from tidegate_coordination.events.metadata_versions import FIRST, LEVELS, NEWEST, WIDE_NUMBERS
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, OffsetToCommit
from tidegate_coordination.rules.gateways import Leave, Register, Renew, TakeClaim
from tidegate_coordination.rules.housekeeping import ForgetObjects, MoveLogStarts
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.producer_ids import ExpireProducers, ReserveProducerIds
from tidegate_coordination.rules.records.segments import PublishSegments, SegmentUnit
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.rules.topics import CreateTopics, DeleteTopics, NewTopic, TopicKey
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.columns import MAX_INT64, MAX_OBJECTS, MAX_UINT32
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.runs import RunRow

OTHER = b"o" * 16
SIZES = st.sampled_from((10, 10, 10, 10, 0, 1, MAX_UINT32, MAX_UINT32 + 1, -1))
OFFSETS = st.sampled_from((0, 1, 2, 5, MAX_INT64 - 1, MAX_INT64, MAX_INT64 + 1, -1))
COUNTS = st.sampled_from((1, 1, 2, 1000, 2**31 - 1))
COUNTERS = st.sampled_from((3, 3, 3, 4, 5, MAX_UINT32, MAX_UINT32 + 1, MAX_INT64, MAX_INT64 + 1))
PRODUCERS = st.sampled_from((-1, -1, 7, 50, MAX_INT64))
SEQUENCES = st.sampled_from((0, 1, 6, 2**31 - 1))


@cache
def used(version: int) -> ClusterState:
    world = World(version)
    for first in (0, 2, 4):
        world.commit(batch(first, 2, producer=7), batch(partition=1))
    world.apply(ev.ClusterCreated("c" * 22, 1), ev.TopicCreated(OTHER, "o", 1, 1, {}))
    world.apply(ev.ClaimTaken("group/g", 1, 1))
    return world.state


@st.composite
def states(draw: st.DrawFn) -> ClusterState:
    version = draw(st.sampled_from((FIRST, WIDE_NUMBERS - 1, NEWEST, NEWEST)))
    ends = (0, MAX_UINT32 - 1, MAX_OBJECTS - 1 if version >= WIDE_NUMBERS else 0)
    return moved_up(
        used(version),
        next_object=draw(st.sampled_from(ends)),
        next_offsets={3: draw(st.sampled_from((0, MAX_INT64 - 3, MAX_INT64)))},
        next_producer_id=draw(st.sampled_from((0, (1 << 40) - 5, (5 << 40) - 1001))),
        next_incarnation=draw(st.sampled_from((0, MAX_UINT32 - 1, MAX_UINT32))),
        next_partition=draw(st.sampled_from((0, MAX_UINT32 - 3, MAX_UINT32 - 1))),
    )


def facts() -> st.SearchStrategy[BatchFacts]:
    return st.builds(
        BatchFacts,
        st.sampled_from((TOPIC, OTHER, b"?" * 16)),
        st.sampled_from((0, 0, 1, 9)),
        SIZES,
        SIZES,
        COUNTS,
        st.sampled_from((-1, 5, MAX_INT64)),
        st.sampled_from((0, MAX_UINT32)),
        PRODUCERS,
        st.sampled_from((0, 1, 2**15 - 1)),
        SEQUENCES,
        SEQUENCES,
    )


def segments() -> st.SearchStrategy[SegmentUnit]:
    """The commit of one run of partition 1 at offset 0; any number may be wrong."""
    numbers = (st.sampled_from((0, 1, 1, MAX_UINT32 + 1)), SIZES, SIZES, SIZES)
    parents = st.just((RunRow(0, 1, 0, 0, 10, 5, 0, 0),))
    segment = st.builds(
        ev.Segment, *numbers, st.just(0), st.just(1), st.just(5), st.sampled_from((0, MAX_UINT32))
    )
    digests = st.sampled_from((0, 2**64 - 1, 2**64))
    return st.builds(SegmentUnit, st.just(1), parents, st.tuples(segment), st.just(1), digests)


def names() -> st.SearchStrategy[WalName]:
    return st.builds(WalName, st.sampled_from((1, 1, 1, 1, 2, MAX_UINT32 + 1)), COUNTERS)


PROPOSALS: st.SearchStrategy[Proposal[object]] = st.one_of(
    *[st.builds(CommitWal, names(), SIZES, st.lists(facts(), max_size=4)) for _ in range(6)],
    st.builds(AbandonWal, names()),
    st.builds(ReserveProducerIds, st.sampled_from((0, 1, 4, 1000, MAX_INT64, -1))),
    st.builds(ExpireProducers, st.sampled_from((0, 5, MAX_INT64))),
    st.builds(
        lambda name, count: CreateTopics([NewTopic(name.encode() * 16, name, count)]),
        st.sampled_from("anx"),
        st.sampled_from((-1, 0, 1, 3, 10_000, 2**31 - 1)),
    ),
    st.builds(lambda name: DeleteTopics([TopicKey(name)]), st.sampled_from(("t", "o", "?"))),
    st.builds(
        MoveLogStarts,
        st.lists(st.tuples(st.sampled_from((0, 1, 3, 9)), OFFSETS), max_size=3).map(tuple),
    ),
    st.builds(ForgetObjects, st.lists(st.integers(0, 3), max_size=3).map(tuple)),
    st.builds(lambda units: PublishSegments(1, tuple(units)), st.lists(segments(), max_size=2)),
    st.builds(
        lambda offset, text: CommitOffsets(
            "g", 1, -1, (OffsetToCommit(TOPIC, 0, offset, -1, text),)
        ),
        OFFSETS,
        st.sampled_from(("", "text", "\ud800")),
    ),
    st.builds(lambda node: Register(node, f"k{node}", "", (), "0", "c"), st.sampled_from((1, 2))),
    st.builds(TakeClaim, st.sampled_from(("group/g", "group/h"))),
    st.builds(SetMetadataVersion, st.sampled_from(sorted(LEVELS))),
    st.just(Leave(1)),
    st.just(Renew()),
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(states(), st.lists(PROPOSALS, min_size=1, max_size=4))
def test_drafted_events_can_be_folded(
    state: ClusterState, proposals: list[Proposal[object]]
) -> None:
    before = state.encode()
    draft: Draft[int] = Draft(state, 1, 2_000_000, max_bytes=1 << 20, may_write=True)
    for number, proposal in enumerate(proposals):
        try:
            if not draft.may_hold(proposal) or not draft.add(proposal, number):
                break
        except CannotCommit:
            break
    assert state.encode() == before
    position = state.position + 1
    entry_format = LEVELS[state.metadata_version].entry_format
    payload = encode_entry(
        b"n", 1, 2_000_000, draft.events, entry_format=entry_format, position=position
    )
    state.apply(position, decode_entry(payload, position, state.entry_formats))
    assert ClusterState.decode(state.encode()).encode() == state.encode()
