"""The table of groups, and the rules about offsets, on a state folded from entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate_coordination.events.cluster import (
    ClaimTaken,
    ClusterCreated,
    Endpoint,
    Event,
    GatewayExpired,
    GatewayRegistered,
    TopicCreated,
    TopicDeleted,
)
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.groups import (
    CommittedOffset,
    GroupChanged,
    GroupDeleted,
    MemberRecord,
    OffsetsCommitted,
    OffsetsDeleted,
)
from tidegate_coordination.groups.subscription import subscribed_topics
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.rules.consumer_groups.groups import (
    ChangeGroup,
    DeleteGroup,
    Deletion,
    ForgetGroup,
)
from tidegate_coordination.rules.consumer_groups.offset_expiry import ExpireOffsets, propose_expiry
from tidegate_coordination.rules.consumer_groups.offsets import (
    CommitOffsets,
    CommitRefusal,
    DeleteOffsets,
    OffsetDeletionRefusal,
    OffsetToCommit,
)
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import HAS_MEMBERS, GroupTable

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
START_MS = 1_000_000


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


@dataclass
class World:
    """A cluster state with two gateways and two topics, and a clock."""

    state: ClusterState = field(default_factory=ClusterState)
    clock_ms: int = START_MS

    def __post_init__(self) -> None:
        self.fold(ClusterCreated("c", 1), writer=0)
        for number in (1, 2):
            endpoint = Endpoint("P", "h", number)
            row = GatewayRegistered(number, number, f"k{number}", "az", (endpoint,), "0", 0)
            self.fold(row, writer=0)
        self.fold(*(TopicCreated(topic_id(each), each, 2, 1, {}) for each in ("orders", "other")))
        self.fold(ClaimTaken("group/g", 1, 1))

    def fold(self, *events: Event, writer: int = 1) -> None:
        entry = Entry(1, b"n", writer, self.clock_ms, events)
        self.state.apply(self.state.position + 1, entry)

    def wait(self, milliseconds: int) -> None:
        """Log time rises with entries, by an hour each at most."""
        end_ms = self.clock_ms + milliseconds
        while self.clock_ms < end_ms:
            self.clock_ms = min(self.clock_ms + HOUR_MS, end_ms)
            for writer in (1, 2):
                if self.state.gateways.is_live(writer):
                    self.fold(writer=writer)

    def propose(self, proposal: Any, writer: int = 1) -> Any:
        log_time_ms = self.state.log_time_after(writer, self.clock_ms)
        view = View(self.state, writer, self.clock_ms, log_time_ms)
        decided = proposal.decide(view)
        if decided.events:
            self.fold(*decided.events, writer=writer)
        return decided.answer

    def commit(self, offsets: dict[tuple[str, int], int], **fields: Any) -> Any:
        wanted = tuple(
            OffsetToCommit(topic_id(name), index, offset, -1, "")
            for (name, index), offset in offsets.items()
        )
        return self.propose(
            CommitOffsets("g", **({"claim_epoch": 1, "generation": -1} | fields), offsets=wanted)
        )

    def change(self, *members: MemberRecord, kind: str = "consumer", generation: int = 1) -> bool:
        leader = members[0].member_id if members else None
        protocol = "range" if members else None
        record = GroupChanged("g", 1, kind, generation, protocol, leader, members)
        answer: bool = self.propose(ChangeGroup(record))
        return answer

    def offsets(self) -> set[tuple[bytes, int]]:
        group = self.state.groups.get("g")
        return (
            {(topic, index) for topic, rows in group.offsets.items() for index in rows}
            if group is not None
            else set()
        )

    def expire(self) -> list[Any]:
        found = list(
            propose_expiry(self.state, retention_ms=WEEK_MS, log_time_ms=self.state.log_time_ms)
        )
        return [self.propose(each) for each in found]


def subscription(*topics: str) -> bytes:
    names = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in topics)
    return b"\x00\x01" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + b"more"


def member(name: str = "m", metadata: bytes | None = None) -> MemberRecord:
    data = subscription("orders") if metadata is None else metadata
    return MemberRecord(name, f"i-{name}", "c", "/h", 60_000, 10_000, (("range", data),), b"part")


def test_state_comes_back_from_its_encoding() -> None:
    world = World()
    world.change(member("a"), member("b"))
    world.commit({("orders", 0): 5, ("other", 1): 6})
    encoded = world.state.encode()
    back = ClusterState.decode(encoded)
    assert back.encode() == encoded
    before, after = world.state.groups.get("g"), back.groups.get("g")
    assert before == after
    assert after is not None
    assert after.members[1] == member("b")
    assert after.record() == GroupChanged(
        "g", 0, "consumer", 1, "range", "a", (member("a"), member("b"))
    )


def test_encoding_does_not_depend_on_the_order_of_commits() -> None:
    def table(*rows: CommittedOffset) -> bytes:
        groups = GroupTable()
        for each in rows:
            groups.fold_offsets_committed(OffsetsCommitted("g", 1, (each,)), 0)
        return b"".join(groups.frozen().pieces())

    one, two = (CommittedOffset(topic_id(each), 0, 1, -1, "", 0) for each in ("a", "b"))
    assert table(one, two) == table(two, one)


def test_a_group_remembers_since_when_it_is_empty() -> None:
    world = World()
    world.commit({("orders", 0): 5})
    group = world.state.groups.get("g")
    assert group is not None
    assert group.empty_since_ms == START_MS
    world.change(member())
    group = world.state.groups.get("g")
    assert group is not None
    assert group.empty_since_ms == HAS_MEMBERS
    assert world.offsets() == {(topic_id("orders"), 0)}
    world.wait(5000)
    world.change(generation=2)
    group = world.state.groups.get("g")
    assert group is not None
    assert group.empty_since_ms == START_MS + 5000


def test_the_fold_refuses_events_that_contradict_a_group() -> None:
    groups = GroupTable()
    groups.fold_group_changed(GroupChanged("g", 1, "c", 5, "r", "m", (member(),)), 0)
    with pytest.raises(StateBroken, match="generation"):
        groups.fold_group_changed(GroupChanged("g", 1, "c", 4, "r", "m", (member(),)), 0)
    with pytest.raises(StateBroken, match="members"):
        groups.fold_group_deleted(GroupDeleted("g"), 0)
    with pytest.raises(StateBroken, match="no offset"):
        groups.fold_offsets_deleted(OffsetsDeleted("g", ((b"x", 0),)), 0)
    with pytest.raises(StateBroken, match="unknown group"):
        groups.fold_offsets_deleted(OffsetsDeleted("h", ((b"x", 0),)), 0)


def test_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    world.commit({("orders", 0): 5, ("other", 0): 5})
    world.fold(TopicDeleted(topic_id("orders")))
    assert world.offsets() == {(topic_id("other"), 0)}


def test_only_the_holder_of_the_claim_writes() -> None:
    world = World()
    assert world.change(member())
    record = GroupChanged("g", 1, "consumer", 2, "range", "m", (member(),))
    assert world.propose(ChangeGroup(record), writer=2) is False
    offset = OffsetToCommit(topic_id("orders"), 0, 1, -1, "")
    for writer, epoch in ((2, 1), (1, 2)):
        answer = world.propose(CommitOffsets("g", epoch, 1, (offset,)), writer=writer)
        assert answer is CommitRefusal.NOT_HOLDER
    assert world.propose(DeleteGroup("g"), writer=2) is Deletion.NOT_HOLDER
    keys = ((topic_id("orders"), 0),)
    refusal = world.propose(DeleteOffsets("g", keys), writer=2)
    assert refusal is OffsetDeletionRefusal.NOT_HOLDER
    assert world.offsets() == set()


def test_commit_of_an_overtaken_generation_is_refused() -> None:
    world = World()
    world.change(member(), generation=3)
    one = {("orders", 0): 1}
    assert world.commit(one, generation=2) is CommitRefusal.ILLEGAL_GENERATION
    assert world.commit(one, generation=3) == [True]
    assert world.commit(one, generation=4) == [True]  # joined, not yet synced: checked before
    assert world.commit(one, generation=-1) == [True]


def test_commit_leaves_out_partitions_that_are_gone() -> None:
    world = World()
    offsets = {("orders", 0): 1, ("orders", 2): 1, ("gone", 0): 1}
    assert world.commit(offsets) == [True, False, False]
    assert world.offsets() == {(topic_id("orders"), 0)}


def test_group_is_deleted_with_its_claim() -> None:
    world = World()
    assert world.propose(DeleteGroup("g")) is Deletion.UNKNOWN
    world.change(member())
    assert world.propose(DeleteGroup("g")) is Deletion.HAS_MEMBERS
    world.change(generation=2)
    world.commit({("orders", 0): 1})
    assert world.propose(DeleteGroup("g")) is Deletion.DELETED
    assert world.state.groups.get("g") is None
    assert world.state.claims.get("group/g") is None


def test_group_of_an_ended_gateway_may_be_deleted_by_any() -> None:
    world = World()
    world.commit({("orders", 0): 1})
    world.fold(GatewayExpired(1), writer=2)
    assert world.propose(DeleteGroup("g"), writer=2) is Deletion.DELETED


def test_claim_of_a_group_that_never_was_is_forgotten() -> None:
    world = World()
    world.propose(ForgetGroup("g"), writer=2)
    assert world.state.claims.get("group/g") is not None
    world.propose(ForgetGroup("g"))
    assert world.state.claims.get("group/g") is None
    world.fold(ClaimTaken("group/g", 1, 1))
    world.commit({("orders", 0): 1})
    world.propose(ForgetGroup("g"))
    assert world.state.claims.get("group/g") is not None


def test_offsets_of_subscribed_topics_stay() -> None:
    world = World()
    world.change(member())
    world.commit({("orders", 0): 1, ("other", 0): 1})
    keys = ((topic_id("orders"), 0), (topic_id("other"), 0), (topic_id("other"), 1))
    assert world.propose(DeleteOffsets("g", keys)) == [False, True, True]
    assert world.offsets() == {(topic_id("orders"), 0)}


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00\x00\x00\x00\x00\x05", b"\x00\x00\x7f\xff\xff\xff"]
)
def test_unreadable_subscription_protects_all_topics(metadata: bytes) -> None:
    world = World()
    world.change(member("m", metadata))
    world.commit({("other", 0): 1})
    assert world.propose(DeleteOffsets("g", ((topic_id("other"), 0),))) == [False]


def test_offsets_of_other_protocol_types_are_deleted_only_if_the_group_is_empty() -> None:
    world = World()
    keys = ((topic_id("orders"), 0),)
    assert world.propose(DeleteOffsets("g", keys)) is OffsetDeletionRefusal.UNKNOWN_GROUP
    world.change(member(), kind="connect")
    world.commit({("orders", 0): 1})
    assert world.propose(DeleteOffsets("g", keys)) is OffsetDeletionRefusal.IN_USE
    world.change(kind="connect", generation=2)
    assert world.propose(DeleteOffsets("g", keys)) == [True]
    assert world.offsets() == set()


# ---- expiry


def test_offsets_of_an_empty_group_expire_together_after_it_became_empty() -> None:
    world = World()
    world.change(member())
    world.commit({("orders", 0): 1})
    world.wait(30 * DAY_MS)
    assert world.expire() == []
    world.change(generation=2)
    world.wait(WEEK_MS - 1)
    assert world.expire() == []
    world.wait(1)
    assert world.expire() == [(1, True)]
    assert world.state.groups.get("g") is None


def test_offsets_of_a_group_with_members_expire_if_no_member_subscribes() -> None:
    world = World()
    world.change(member())
    world.commit({("orders", 0): 1, ("other", 0): 1, ("other", 1): 1})
    world.wait(DAY_MS)
    world.commit({("other", 1): 2})
    world.wait(6 * DAY_MS)
    assert world.expire() == [(1, False)]
    assert world.offsets() == {(topic_id("orders"), 0), (topic_id("other"), 1)}


def test_offsets_of_a_lone_consumer_expire_after_their_commit() -> None:
    world = World()
    world.commit({("orders", 0): 1})
    world.wait(DAY_MS)
    world.commit({("orders", 1): 1})
    world.wait(6 * DAY_MS)
    assert world.expire() == [(1, False)]
    world.wait(DAY_MS)
    assert world.expire() == [(1, True)]


@pytest.mark.parametrize("kind", ["connect", "consumer"])
def test_offsets_whose_subscription_is_unknown_do_not_expire(kind: str) -> None:
    world = World()
    world.change(member("m", b""), kind=kind)
    world.commit({("orders", 0): 1})
    world.wait(30 * DAY_MS)
    assert world.expire() == []


def test_group_without_members_and_offsets_goes_soon() -> None:
    world = World()
    world.change(generation=1)
    world.wait(599_999)
    assert world.expire() == []
    world.wait(1)
    assert world.expire() == [(0, True)]


def test_a_group_that_is_written_again_while_it_rebalances_keeps_its_offsets() -> None:
    world = World()
    world.change(member())
    world.commit({("orders", 0): 1})
    world.change(generation=2)
    world.wait(WEEK_MS - 1000)
    world.change(generation=2)
    world.wait(2000)
    assert world.expire() == []
    assert world.propose(ExpireOffsets("g", WEEK_MS)) == (0, False)


# ---- small helpers


def test_subscribed_topics_of_all_members() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "c")]) == frozenset("abc")
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([subscription("a"), subscription("a")[:8]]) is None


def test_rendezvous_moves_as_few_groups_as_possible() -> None:
    keys = [str(number).encode() for number in range(1000)]
    before = {key: choose(key, [1, 2, 3, 4]) for key in keys}
    after = {key: choose(key, [4, 3, 1]) for key in keys}
    assert all(after[key] == node for key, node in before.items() if node != 2)
    shares = [list(before.values()).count(node) for node in (1, 2, 3, 4)]
    assert min(shares) > 180
    with pytest.raises(ValueError, match="candidate"):
        choose(b"key", [])


def test_rendezvous_is_the_same_for_ever() -> None:
    assert [choose(each.encode(), [1, 2, 3]) for each in ("a", "b", "c", "d", "group")] == PINNED


PINNED = [2, 3, 2, 1, 1]
