"""Links: their settings, and the mirrors of their topics."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.rules.migration.mirrors import (
    ANY_END,
    LinkRefusal,
    MirrorTopics,
    PlaceMirrors,
    Placing,
    RemoveLink,
    SetLink,
    TopicRefused,
)
from tidegate_coordination.rules.migration.switches import FinishSwitches
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome
from tidegate_coordination.rules.records.mirrored_batches import PLAIN, MirroredBatch
from tidegate_coordination.rules.records.wal import CommitWal

from ..decider import Decider
from ..source import SourceTopic
from .known import LINKED_GROUPS, Caller, Known
from .records import BATCH_BYTES

LINK: Final = "west"
LINKED_IDS: Final = ("west-*",)
_NAMES: Final = ("west-apples", "west-pears")
_SOURCE_ID: Final = "s" * 22
_MOST_BATCHES: Final = 4
_SKIP_SHARE: Final = 0.05


class LinkCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.set_link, 3),
            (self.remove_link, 1),
            (self.write_at_source, 8),
            (self.follow_topics, 4),
            (self.mirror, 14),
            (self.place, 4),
            (self.finish, 1),
        )

    def set_link(self, decider: Decider) -> None:
        """Make or confirm the link."""
        if LINK in decider.state.links.by_name and self._rng.random() < 0.7:
            return
        proposal = SetLink(
            LINK,
            _SOURCE_ID,
            "h:9092",
            ("west-*",),
            replaces=True,
            forwards=True,
            groups=LINKED_GROUPS,
            transactional_ids=LINKED_IDS,
            transaction_version=2,
        )
        self._world.ask(decider, proposal)

    def remove_link(self, decider: Decider) -> None:
        """Remove the link with its copies."""
        if self._rng.random() < 0.5:
            return
        mirrored = self._world.records.mirrored

        def judged(answer: LinkRefusal | list[str], is_told: bool) -> None:
            if isinstance(answer, list):
                gone = list(mirrored)
                self._world.links.deleted(gone)
                self._world.links.moved.clear()
                for topic_id in gone:
                    self._known.deleted(topic_id)
                for topic_id in gone:
                    del self._world.source.topics[topic_id]

        self._world.ask(decider, RemoveLink(LINK, deletes_topics=True), judged)

    def write_at_source(self, decider: Decider) -> None:
        """Let clients write at the source; at times create a topic there."""
        source = self._world.source
        names = {each.name for each in source.topics.values()}
        for name in set(_NAMES) - names if self._rng.random() < 0.3 else ():
            source.make(name)
            return
        source.write()

    def follow_topics(self, decider: Decider) -> None:
        """Make copies of topics, or have them follow their source."""
        topics = list(self._world.source.topics.values())
        linked = tuple(map(self._linked, topics))
        if not linked:
            return

        def judged(refused: list[TopicRefused], is_told: bool) -> None:
            names = {each.name for each in refused}
            for topic, each in zip(topics, linked, strict=True):
                if each.name not in names:
                    self._followed(topic, each)

        self._world.ask(decider, MirrorTopics(LINK, linked), judged)

    def _linked(self, topic: SourceTopic) -> LinkedTopic:
        configs = {"retention.ms": "1000"} if self._rng.random() < 0.5 else {}
        return LinkedTopic(topic.topic_id, topic.name, len(topic.partitions), 3, configs)

    def _followed(self, topic: SourceTopic, asked: LinkedTopic) -> None:
        """Record that a topic follows its source.

        A switched topic does not follow its source, and keeps the configs of this cluster.
        """
        present = self._world.truth.topics.by_id.get(topic.topic_id)
        if present is None:
            return
        self._known.grown(topic.topic_id, topic.name, len(present.partition_numbers))
        if topic.topic_id not in self._world.links.linked:
            self._world.links.began(topic.topic_id)
        if topic.topic_id in self._world.records.mirrored:
            self._world.configs.forget(topic.topic_id)

    def _copy(self, decider: Decider) -> tuple[SourceTopic, int, int] | None:
        """Return a mirrored topic, an index, and where its copy ends in a decider's view."""
        found = [
            each
            for each in self._world.source.topics.values()
            if each.topic_id in decider.state.topics.by_id
        ]
        if not found:
            return None
        topic = self._rng.choice(found)
        numbers = decider.state.topics.by_id[topic.topic_id].partition_numbers
        index = self._rng.randrange(len(numbers))
        if index >= len(topic.partitions):
            return None
        return topic, index, decider.state.partitions[numbers[index]].next_offset

    def mirror(self, decider: Decider) -> None:
        """Commit the next mirrored batches of a partition."""
        copy = self._copy(decider)
        if copy is None:
            return
        topic, index, at = copy
        following = topic.partitions[index].after(at)
        if following and self._rng.random() < _SKIP_SHARE:  # as if it were here
            at = following.pop(0).next_offset
        batches: list[BatchFacts] = []
        mirrored: dict[int, MirroredBatch] = {}
        for each in following[: self._rng.randint(1, _MOST_BATCHES)]:
            position = BATCH_BYTES * len(batches)
            mirrored[position] = MirroredBatch(
                at, each.base_offset, each.next_offset, each.leader_epoch, each.kind
            )
            count = each.next_offset - each.base_offset
            producer = each.producer_id, 0 if each.kind != PLAIN else -1, -1, -1
            stamps = self._world.now_ms, self._rng.getrandbits(32)
            batches.append(
                BatchFacts(
                    topic.topic_id, index, position, BATCH_BYTES, count, *stamps, *producer, 0
                )
            )
            at = each.next_offset
        if not batches:
            return
        name = self._known.new_object(decider.incarnation)
        proposal = CommitWal(name, BATCH_BYTES * len(batches), batches, mirrored=mirrored)

        def judged(outcomes: list[BatchOutcome], is_told: bool) -> None:
            for batch, outcome in zip(batches, outcomes, strict=True):
                self._world.links.mirrored(batch, mirrored[batch.position], outcome)

        self._world.ask(decider, proposal, judged)

    def place(self, decider: Decider) -> None:
        """Move the bounds of a copy to those of its source."""
        copy = self._copy(decider)
        if copy is None:
            return
        topic, index, at = copy
        theirs = topic.partitions[index]
        if theirs.after(at):
            placing = Placing(topic.topic_id, index, ANY_END, min(theirs.log_start, at), at)
        else:
            end = max(theirs.next_offset, at)
            placing = Placing(topic.topic_id, index, at, min(theirs.log_start, end), end)
        place = topic.topic_id, index

        def judged(answers: list[bool], is_told: bool) -> None:
            if answers[0]:
                self._world.links.placed(place, *placing[2:])

        self._world.ask(decider, PlaceMirrors(LINK, [placing]), judged)

    def finish(self, decider: Decider) -> None:
        """Forget the source of switched topics."""
        if self._rng.random() < 0.5:
            self._world.ask(decider, FinishSwitches(LINK), self._finished)

    def _finished(self, answer: list[str] | str, is_told: bool) -> None:
        if isinstance(answer, list):
            for topic in list(self._world.source.topics.values()):
                if topic.name in answer:
                    self._world.links.finished(topic.topic_id)
