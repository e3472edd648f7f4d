"""Groups: their claims, members and offsets, also those of transactions."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from tidegate_coordination.events.groups import GroupChanged, MemberRecord
from tidegate_coordination.rules.consumer_groups import groups
from tidegate_coordination.rules.consumer_groups.groups import (
    ChangeGroup,
    DeleteGroup,
    ForgetGroup,
    group_claim,
)
from tidegate_coordination.rules.consumer_groups.offset_expiry import ExpireOffsets
from tidegate_coordination.rules.consumer_groups.offsets import (
    CommitOffsets,
    DeleteOffsets,
    OffsetToCommit,
)
from tidegate_coordination.rules.gateways import ReleaseClaim, TakeClaim
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.rules.transactions.staging import StageOffsets
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC

from ..decider import Decider
from .known import GROUPS, LINKED_GROUPS, NAMES, Caller, Known

RETENTION_MS: Final = 90_000
_MOST_OFFSET: Final = 1_000
_OFFSETS_PARTITIONS: Final = 2
_TOO_LONG: Final = 17 << 10
_COUNTS: Final = Struct(">hih")


def subscription(topic: str) -> bytes:
    """Return the metadata of a consumer that subscribes to one topic."""
    return _COUNTS.pack(0, 1, len(topic)) + topic.encode() + b"\xff\xff\xff\xff"


class GroupCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.create_offsets_topic, 1),
            (self.take_claim, 5),
            (self.release_claim, 1),
            (self.change, 3),
            (self.commit, 8),
            (self.commit_too_much, 2),
            (self.stage, 4),
            (self.delete_offsets, 1),
            (self.expire, 2),
            (self.delete, 1),
            (self.forget, 1),
        )

    def create_offsets_topic(self, decider: Decider) -> None:
        """Create `__consumer_offsets`."""
        if OFFSETS_TOPIC not in decider.state.topics.by_name:
            topic = NewTopic(self._rng.randbytes(16), OFFSETS_TOPIC, _OFFSETS_PARTITIONS, 1)
            self._world.ask(decider, CreateTopics([topic]))

    def take_claim(self, decider: Decider) -> None:
        """Take the claim of a group."""
        name = group_claim(self._rng.choice(GROUPS))
        incarnation = decider.incarnation

        def judged(epoch: int | None, is_told: bool) -> None:
            if epoch is None:
                return
            self._world.claims.taken(name, incarnation, epoch)
            if is_told:
                self._known.claims[incarnation, name] = epoch

        self._world.ask(decider, TakeClaim(name), judged)

    def release_claim(self, decider: Decider) -> None:
        """Release a claim, whether this gateway holds it or not."""
        name = group_claim(self._rng.choice(GROUPS))
        incarnation = decider.incarnation

        def judged(answer: None, is_told: bool) -> None:
            self._world.claims.released(name, incarnation)

        self._world.ask(decider, ReleaseClaim(name), judged)

    def _claimed(self, decider: Decider) -> tuple[str, int]:
        """Return a group and the epoch of the claim that this gateway last had; -1 for none."""
        group_id = self._rng.choice(GROUPS)
        return group_id, self._known.claims.get((decider.incarnation, group_claim(group_id)), -1)

    def change(self, decider: Decider) -> None:
        """End a rebalance: the group has a member, or none."""
        group_id, epoch = self._claimed(decider)
        if epoch < 0:
            return
        last = decider.state.groups.get(group_id)
        generation = (last.generation if last is not None else 0) + self._rng.randint(0, 1)
        topic = self._rng.choice(NAMES)
        protocols = (("range", subscription(topic)),)
        member = MemberRecord("m", None, "c", "h", 1, 2, protocols, b"")
        members = (member,) if self._rng.random() < 0.4 else ()
        record = GroupChanged(group_id, epoch, "consumer", generation, "range", None, members)
        incarnation = decider.incarnation

        def judged(is_taken: bool, is_told: bool) -> None:
            if is_taken:
                self._is_here(group_id)
                self._world.claims.used(group_claim(group_id), incarnation, epoch)
                self._world.offsets.changed(group_id, generation, topic if members else None)

        self._world.ask(decider, ChangeGroup(record), judged)

    def commit(self, decider: Decider) -> None:
        """Commit an offset under the claim that this gateway last had."""
        group_id, epoch = self._claimed(decider)
        if not self._known.topics or epoch < 0:
            return
        wanted = self._offset()
        generation = self._rng.choice((-1, -1, 0, 1))
        incarnation = decider.incarnation
        proposal = CommitOffsets(group_id, epoch, generation, (wanted,))

        def judged(answer: Any, is_told: bool) -> None:
            if isinstance(answer, list) and answer[0]:
                self._world.claims.used(group_claim(group_id), incarnation, epoch)
                self._world.offsets.in_generation(group_id, generation)
                self._is_here(group_id)
                key = group_id, wanted.topic_id, wanted.partition
                self._world.offsets.committed(key, wanted.offset)

        self._world.ask(decider, proposal, judged)

    def _is_here(self, group_id: str) -> None:
        """Complain about a write to a group that the source of a link coordinates."""
        has_link = bool(self._world.truth.links.by_name)
        is_here = self._world.offsets.has(group_id) or group_id in self._world.links.moved
        if has_link and group_id in LINKED_GROUPS and not is_here:
            self._world.complain(f"{group_id} is written, and the source of a link has it")

    def _offset(self, metadata: str = "") -> OffsetToCommit:
        return OffsetToCommit(*self._known.place(), self._rng.randrange(_MOST_OFFSET), -1, metadata)

    def commit_too_much(self, decider: Decider) -> None:
        """Commit an offset with so much metadata that no entry has room for it."""
        group_id, epoch = self._claimed(decider)
        if not self._known.topics or epoch < 0:
            return
        proposal = CommitOffsets(group_id, epoch, -1, (self._offset("x" * _TOO_LONG),))

        def judged(answer: Any, is_told: bool) -> None:
            if isinstance(answer, list) and answer[0]:
                self._world.complain("an offset larger than an entry is committed")

        self._world.ask(decider, proposal, judged, may_fail=True)

    def stage(self, decider: Decider) -> None:
        """Commit an offset in a transaction."""
        group_id, epoch = self._claimed(decider)
        writer = self._rng.choice(self._known.writers)
        if not self._known.topics or epoch < 0 or not writer.name or writer.producer_id < 0:
            return
        wanted = self._offset()
        ids = writer.producer_id, writer.epoch
        incarnation = decider.incarnation
        proposal = StageOffsets(group_id, epoch, -1, (wanted,), writer.name, *ids, may_add=True)

        def judged(answer: Any, is_told: bool) -> None:
            if not isinstance(answer, list):
                return
            self._world.claims.used(group_claim(group_id), incarnation, epoch)
            self._world.transactions.grown(writer.name, *ids, ())
            if answer[0]:
                key = group_id, wanted.topic_id, wanted.partition
                self._world.transactions.staged(writer.name, key, wanted.offset)
            if is_told and ids == (writer.producer_id, writer.epoch):
                writer.is_open = True

        self._world.ask(decider, proposal, judged)

    def delete_offsets(self, decider: Decider) -> None:
        """Delete an offset of a group."""
        if not self._known.topics:
            return
        group_id, place = self._rng.choice(GROUPS), self._known.place()
        name = self._known.topics[place[0]][0]

        def judged(answer: Any, is_told: bool) -> None:
            if isinstance(answer, list) and answer[0]:
                self._world.offsets.removed((group_id, *place), name)
                self._world.transactions.unstage(lambda key: key == (group_id, *place))

        self._world.ask(decider, DeleteOffsets(group_id, (place,)), judged)

    def expire(self, decider: Decider) -> None:
        """Delete the expired offsets of a group."""
        group_id = self._rng.choice(GROUPS)

        def judged(answer: tuple[int, bool], is_told: bool) -> None:
            if answer == (0, False):
                return
            names = {topic_id: name for topic_id, (name, _) in self._known.topics.items()}
            self._world.offsets.expired(group_id, RETENTION_MS, names)
            if answer[1]:
                self._world.claims.forgotten(group_claim(group_id))

        self._world.ask(decider, ExpireOffsets(group_id, RETENTION_MS), judged)

    def delete(self, decider: Decider) -> None:
        """Delete a group."""
        group_id = self._rng.choice(GROUPS)

        def judged(answer: groups.Deletion, is_told: bool) -> None:
            if answer is groups.Deletion.DELETED:
                self._world.offsets.deleted(group_id)
                self._world.transactions.unstage(lambda key: key[0] == group_id)
                self._world.claims.forgotten(group_claim(group_id))

        self._world.ask(decider, DeleteGroup(group_id), judged)

    def forget(self, decider: Decider) -> None:
        """Release the claim of a group that never became durable."""
        group_id = self._rng.choice(GROUPS)
        incarnation = decider.incarnation

        def judged(answer: None, is_told: bool) -> None:
            is_durable = self._world.offsets.has(group_id)
            if self._world.is_group_deleted(group_id) and not is_durable:
                self._world.claims.used_now(group_claim(group_id), incarnation)
                self._world.claims.forgotten(group_claim(group_id))

        self._world.ask(decider, ForgetGroup(group_id), judged)
