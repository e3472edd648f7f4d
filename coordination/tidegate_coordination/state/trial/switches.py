"""The part of a trial for topics that are switched from a link's source, or return to it; see
events.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...events import links as kev
from ..broken import expect
from ..migration.switches import Fence, Switched
from ..tables import StateTables
from .link_groups import LinkGroupTrial
from .once import Once, kept_topic, only_once


class SwitchTrial:
    """See the module's head.  once: facts that occurred in the entry, and may not again.

    groups: checks the groups that move with topics.
    """

    def __init__(self, state: StateTables, once: Once) -> None:
        self._state: Final = state
        self._once: Final = once
        self.groups: Final = LinkGroupTrial(state, once)

    def topics_fenced(self, event: kev.TopicsFenced) -> None:
        """Check the fence's number, and that its topics are the link's and have no fence."""
        switches = self._state.switches
        self._state.links.expect_link(event.link)
        expect(event.fence == switches.next_fence, f"fence {event.fence}")
        only_once(self._once, "new fence", event.fence)
        for each in event.topics:
            only_once(self._once, "fence of topic", each.topic_id)
            topic = kept_topic(self._state, self._once, each.topic_id)
            expect(topic.link == event.link, f"{topic.name} is not of link {event.link}")
            expect(switches.fence_of(each.topic_id) is None, f"{topic.name} has a fence")
        if event.unit:
            self.groups.joined(event.unit)

    def fence_reached(self, event: kev.FenceReached) -> None:
        """Check that the fence exists."""
        self._fence(event.fence)

    def fence_lifted(self, event: kev.FenceLifted) -> None:
        """Check that the fence is open, and ends once."""
        self._fence_goes_on(event.fence)

    def _fence(self, number: int) -> Fence:
        expect(("end of fence", number) not in self._once, f"fence {number} has ended")
        expect(number in self._state.switches.fences, f"unknown fence {number}")
        return self._state.switches.fences[number]

    def _fence_goes_on(self, number: int) -> Fence:
        """Return an open fence; check that it ends once in this entry."""
        fence = self._fence(number)
        expect(not fence.lifted, f"fence {number} is lifted")
        only_once(self._once, "end of fence", number)
        return fence

    def source_reopened(self, event: kev.SourceReopened) -> None:
        """Check that the fence is lifted, and ends once."""
        expect(bool(self._fence(event.fence).lifted), f"fence {event.fence} is not lifted")
        only_once(self._once, "end of fence", event.fence)

    def topics_switched(self, event: kev.TopicsSwitched) -> None:
        """Check that the fence is open, and that its topics leave the source."""
        fence = self._fence_goes_on(event.fence)
        expect(not fence.is_back, f"fence {event.fence} returns")
        self._change_sides(fence, event.epochs)

    def switches_finished(self, event: kev.SwitchesFinished) -> None:
        """Check that the topics were switched, and that nothing else happens to them."""
        for topic_id in event.topic_ids:
            switches = self._state.switches
            known = topic_id in switches.switched and switches.fence_of(topic_id) is None
            expect(known, f"topic {topic_id.hex()} was not switched, or returns")
            # The event also ends the write-back of the topic.
            only_once(self._once, "reverse of topic", topic_id)
            reached = (("reverse of partition", each) for each in self._numbers_if_any(topic_id))
            expect(not self._once.intersection(reached), "it went on in this entry")

    def topics_reversing(self, event: kev.TopicsReversing) -> None:
        """Check that the topics were switched, and that nothing else happens to them."""
        self._state.links.expect_link(event.link)
        for topic_id in event.topic_ids:
            self._own(topic_id)
            only_once(self._once, "reverse of topic", topic_id)

    def _own(self, topic_id: bytes) -> Switched:
        """Return the row of a switched topic; check that it has no fence, and is not deleted."""
        kept_topic(self._state, self._once, topic_id)
        switches = self._state.switches
        expect(topic_id in switches.switched, f"topic {topic_id.hex()} was not switched")
        expect(switches.fence_of(topic_id) is None, f"topic {topic_id.hex()} has a fence")
        return switches.switched[topic_id]

    def reverse_reached(self, event: kev.ReverseReached) -> None:
        """Check that each partition reverses, and is written back no further than its end."""
        for place in event.places:
            partition = self._state.partitions.get(place.partition)
            expect(partition is not None, f"unknown partition {place.partition}")
            assert partition is not None
            kept_topic(self._state, self._once, partition.topic_id)
            switched = self._state.switches.switched.get(partition.topic_id)
            reached = switched.reached if switched is not None else ()
            expect(partition.index < len(reached), f"partition {place.partition} reverses not")
            is_next = reached[partition.index] <= place.offset <= partition.next_offset
            expect(is_next, f"partition {place.partition} reached {place.offset}")
            only_once(self._once, "reverse of partition", place.partition)
            expect(("reverse of topic", partition.topic_id) not in self._once, "it has ended")

    def reverse_ended(self, event: kev.ReverseEnded) -> None:
        """Check that the topics were switched, and that nothing else happens to them."""
        for topic_id in event.topic_ids:
            self._own(topic_id)
            only_once(self._once, "reverse of topic", topic_id)
            reached = (("reverse of partition", each) for each in self._numbers(topic_id))
            expect(not self._once.intersection(reached), "it went on in this entry")

    def _numbers_if_any(self, topic_id: bytes) -> list[int]:
        topic = self._state.topics.by_id.get(topic_id)
        return topic.partition_numbers if topic is not None else []

    def _numbers(self, topic_id: bytes) -> list[int]:
        return kept_topic(self._state, self._once, topic_id).partition_numbers

    def return_fenced(self, event: kev.ReturnFenced) -> None:
        """Check that the fence has the next number, and that its topics are being written back."""
        self._state.links.expect_link(event.link)
        expect(event.fence == self._state.switches.next_fence, f"fence {event.fence}")
        only_once(self._once, "new fence", event.fence)
        for topic_id in event.topic_ids:
            only_once(self._once, "fence of topic", topic_id)
            expect(bool(self._own(topic_id).reached), f"topic {topic_id.hex()} does not reverse")
            expect(("reverse of topic", topic_id) not in self._once, "it ends in this entry")
            expect(
                not kept_topic(self._state, self._once, topic_id).link,
                f"topic {topic_id.hex()} is mirrored",
            )

    def topics_returned(self, event: kev.TopicsReturned) -> None:
        """Check that the fence is open, and that its topics return to the source."""
        fence = self._fence_goes_on(event.fence)
        expect(fence.is_back, f"fence {event.fence} does not return")
        self._change_sides(fence, event.epochs)

    def _change_sides(self, fence: Fence, epochs: Iterable[kev.EpochBegan]) -> None:
        numbers: set[int] = set()
        for topic_id in fence.limits:
            numbers.update(self._numbers(topic_id))
            only_once(self._once, "switch of topic", topic_id)
        for each in epochs:
            expect(each.partition in numbers, f"an epoch of partition {each.partition}")
