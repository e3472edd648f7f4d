"""Folds of links and of the partitions that they mirror."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ...events import cluster as ev
from ...events import links as kev
from ..broken import expect
from ..name_changes import TOPIC_RESOURCE
from ..tables import StateTables


class MirrorFolds:
    """Folds the events of links, for ClusterState.apply()."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state

    def hold_links(self) -> None:
        """Do nothing at the sources until an operator confirms the links: the log was restored."""
        state = self._state
        self.unlink(state.switches.hold_links(state.links.by_name))
        state.link_groups.lift_all()

    def fold_set(self, event: kev.LinkSet) -> None:
        """Make or change a link; an operator has confirmed it."""
        self._state.links.fold_set(event)
        self._state.switches.confirm(event.name)

    def fold_removed(self, event: kev.LinkRemoved) -> None:
        """Forget a link."""
        self._state.links.fold_removed(event)
        self._state.switches.forget_link(event.name)
        self._state.link_groups.forget_link(event.name)

    def fold_fenced(self, event: kev.TopicsFenced) -> None:
        """A switch begins."""
        state = self._state
        state.links.expect_link(event.link)
        for each in event.topics:
            topic = state.topics.get(each.topic_id)
            expect(topic.link == event.link, f"{topic.name} is not of link {event.link}")
        alive = (each.incarnation for each in state.gateways.brokers())
        state.switches.fold_fenced(event, alive)
        if event.unit:
            state.link_groups.fold_joined(event.unit, event.fence)

    def fold_lifted(self, event: kev.FenceLifted) -> None:
        """A switch, or a return, is cancelled."""
        switches = self._state.switches
        fence = switches.fences.get(event.fence)
        if fence is None or not fence.is_back:
            return switches.fold_lifted(event, self._state.log_time_ms)
        return self.unlink(switches.fold_return_lifted(event).limits)

    def unlink(self, topic_ids: Iterable[bytes]) -> None:
        """Topics are this cluster's own."""
        state = self._state
        for topic_id in topic_ids:
            topic = state.topics.fold_unlinked(topic_id)
            state.touched.update(topic.partition_numbers)
            state.name_changes.note(TOPIC_RESOURCE, topic.name, state.position + 1)

    def fold_reopened(self, event: kev.SourceReopened) -> None:
        """The source of a lifted fence takes writes again."""
        self._state.switches.fold_reopened(event, self._state.log_time_ms, kev.REST_MS)

    def fold_switched(self, event: kev.TopicsSwitched) -> None:
        """Fenced topics are this cluster's own."""
        state = self._state
        expect(event.fence in state.switches.fences, f"unknown fence {event.fence}")
        ends: dict[bytes, tuple[int, ...]] = {}
        for topic_id in state.switches.fences[event.fence].limits:
            topic = state.topics.fold_unlinked(topic_id)
            numbers = topic.partition_numbers
            ends[topic_id] = tuple(state.partitions[each].next_offset for each in numbers)
            state.touched.update(numbers)
            state.name_changes.note(TOPIC_RESOURCE, topic.name, state.position + 1)
        self._fold_later_epochs(event.epochs)
        state.switches.fold_switched(event, ends)

    def fold_reverse_reached(self, event: kev.ReverseReached) -> None:
        """Partitions are at their source up to further offsets."""
        state = self._state
        by_topic: defaultdict[bytes, dict[int, int]] = defaultdict(dict)
        for number, offset in ((each.partition, each.offset) for each in event.places):
            partition = state.partitions.get(number)
            is_there = partition is not None and offset <= partition.next_offset
            expect(is_there, f"partition {number} reached {offset}")
            assert partition is not None
            by_topic[partition.topic_id][partition.index] = offset
        for topic_id, offsets in by_topic.items():
            state.switches.fold_reverse_reached(topic_id, offsets)

    def fold_return_fenced(self, event: kev.ReturnFenced) -> None:
        """Topics are about to return: no more is committed here."""
        state = self._state
        state.links.expect_link(event.link)
        alive = (each.incarnation for each in state.gateways.brokers())
        state.switches.fold_return_fenced(event, alive)
        for topic_id in event.topic_ids:
            topic = state.topics.fold_relinked(topic_id, event.link)
            state.touched.update(topic.partition_numbers)
            state.name_changes.note(TOPIC_RESOURCE, topic.name, state.position + 1)

    def fold_returned(self, event: kev.TopicsReturned) -> None:
        """Topics follow their source again."""
        self._fold_later_epochs(event.epochs)
        self._state.switches.fold_returned(event.fence, self._state.log_time_ms)

    def fold_groups_fenced(self, event: kev.GroupsFenced) -> None:
        """Groups are about to move here."""
        state = self._state
        alive = (each.incarnation for each in state.gateways.brokers())
        state.link_groups.fold_fenced(event, alive)

    def fold_linked(self, event: kev.TopicsLinked) -> None:
        """Topics that a link mirrors begin, empty."""
        state = self._state
        state.links.expect_link(event.link)
        for each in event.topics:
            # No epoch yet: the source's epochs come with its batches.
            numbers = state.partitions.add_without_epochs(each.topic_id, 0, each.partition_count)
            created = ev.TopicCreated(
                each.topic_id,
                each.name,
                each.partition_count,
                each.replication_factor,
                each.configs,
            )
            state.topics.fold_created(created, numbers, event.link, each.shown_id)
            state.name_changes.note(TOPIC_RESOURCE, each.name, state.position + 1)

    def fold_placed(self, event: kev.MirrorsPlaced) -> None:
        """The bounds of mirrored partitions move up."""
        state = self._state
        numbers = [each.partition for each in event.places]
        state.keep_partitions(numbers)
        state.touched.update(numbers)
        for place in event.places:
            partition = state.partitions[place.partition]
            for row in partition.fold_place(place.log_start, place.next_offset):
                if not row.is_marker:
                    state.objects.release(row.object_number, state.log_time_ms)

    def fold_mirrored(self, event: kev.RunsMirrored) -> None:
        """Note the leader epochs and transactions of the batches just committed.

        The fold of their WalCommitted has kept and touched the partitions.
        """
        partitions = self._state.partitions
        self._fold_epochs(event.epochs)
        for step in event.steps:
            partitions[step.partition].fold_step(step, self._state.log_time_ms)

    def _fold_later_epochs(self, epochs: Iterable[kev.EpochBegan]) -> None:
        """Note leader epochs that began where partitions end."""
        self._state.keep_partitions([each.partition for each in epochs])
        self._fold_epochs(epochs)

    def _fold_epochs(self, epochs: Iterable[kev.EpochBegan]) -> None:
        state = self._state
        for each in epochs:
            partition = state.partitions[each.partition]
            if partition.fold_epoch(each.epoch, each.offset):
                state.topics.fold_epoch(partition.topic_id)
