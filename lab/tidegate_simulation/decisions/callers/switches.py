"""Switches of mirrored topics to this cluster, and their returns, step by step.

Any gateway that sees a fence in its own replica, which may be stale, does the next step.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.migration.returns import (
    EndReverse,
    FenceReturn,
    NoteReversed,
    ReturnTopics,
    ReverseTopics,
)
from tidegate_coordination.rules.migration.switches import (
    FenceTopics,
    LiftFence,
    ReachFence,
    ReopenSource,
    SwitchTopics,
)
from tidegate_coordination.state.migration.switches import Fence

from ..decider import Decider
from ..source import SourceTopic
from .known import Caller, Known
from .links import LINK
from .moved_groups import groups_of, ids_of

_HASTE: Final = 0.1
"""So often a step is tried before those that should come first."""


class SwitchCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.fence, 5),
            (self.go_on, 20),
            (self.lift, 1),
            (self.reverse, 6),
            (self.note_reversed, 5),
            (self.end_reverse, 2),
            (self.fence_return, 8),
        )

    def _here(self, decider: Decider) -> list[SourceTopic]:
        """Return the source's topics that a decider knows."""
        topics = decider.state.topics.by_id
        return [each for each in self._world.source.topics.values() if each.topic_id in topics]

    def fence(self, decider: Decider) -> None:
        """Begin to switch a topic, perhaps with groups and ids."""
        found = self._here(decider)
        if not found:
            return
        topic = self._rng.choice(found)
        units = [
            each.number
            for each in decider.state.link_groups.fences.values()
            if each.ids and not each.switch
        ]
        unit = self._rng.choice(units) if units and self._rng.random() < 0.6 else 0
        self._world.ask(decider, FenceTopics(LINK, ((topic.topic_id, ""),), unit))

    def go_on(self, decider: Decider) -> None:
        """Do the next step of a fence."""
        fences = list(decider.state.switches.fences.values())
        if not fences:
            return
        fence = self._rng.choice(fences)
        if fence.lifted:
            self._reopen(decider, fence)
        elif decider.incarnation in fence.awaited and self._rng.random() > _HASTE:
            self._world.ask(decider, ReachFence(fence.number))
        elif fence.is_back:
            self._return(decider, fence)
        else:
            self._switch(decider, fence)

    def _sources(self, fence: Fence) -> list[SourceTopic]:
        topics = self._world.source.topics
        return [topics[each] for each in fence.limits if each in topics]

    def _switch(self, decider: Decider, fence: Fence) -> None:
        """Fence the source, read its ends, and switch."""
        present = self._world.truth.switches.fences.get(fence.number)
        sources = self._sources(fence)
        if present is None or present.lifted or not sources:
            return
        for each in sources:
            each.is_fenced = True
        ends = tuple(
            (each.topic_id, tuple(one.next_offset for one in each.partitions)) for each in sources
        )
        unit = decider.state.link_groups.fences.get(fence.unit)
        groups = groups_of(self._known, unit) if unit is not None else ()
        ids = ids_of(self._known, unit) if unit is not None else ()
        epochs = self._epochs(decider, sources)
        proposal = SwitchTopics(fence.number, ends, groups, ids, epochs)

        def judged(text: str, is_told: bool) -> None:
            if not text:
                self._world.links.switched(fence.number)
                self._moved(fence, groups, ids)

        self._world.ask(decider, proposal, judged)

    def _moved(self, fence: Fence, groups: Any, ids: Any) -> None:
        if fence.unit:
            self._world.moved_groups(fence.unit, groups)
        for each in ids:
            self._world.transactions.initialised(
                each.transactional_id, each.producer_id, each.epoch
            )

    @staticmethod
    def _epochs(decider: Decider, sources: list[SourceTopic]) -> tuple[tuple[int, int], ...]:
        """Return the leader epochs at the source, by partition number."""
        found: list[tuple[int, int]] = []
        for each in sources:
            topic = decider.state.topics.by_id.get(each.topic_id)
            numbers = topic.partition_numbers if topic is not None else ()
            found += zip(numbers, (one.leader_epoch for one in each.partitions), strict=False)
        return tuple(found)

    def _reopen(self, decider: Decider, fence: Fence) -> None:
        """Have the source take writes again at once; late requests are not simulated."""
        present = self._world.truth.switches.fences.get(fence.number)
        if present is None:
            return
        for each in self._sources(fence):
            each.is_fenced = False
        self._world.ask(decider, ReopenSource(fence.number))

    def lift(self, decider: Decider) -> None:
        """Abort a switch or a return by lifting its fence."""
        fences = list(decider.state.switches.fences.values())
        if not fences:
            return
        number = self._rng.choice(fences).number

        def judged(was_open: bool, is_told: bool) -> None:
            if was_open:
                self._world.links.lifted(number)

        self._world.ask(decider, LiftFence(number, "it took too long"), judged)

    # -- the way back -------------------------------------------------------------------------

    def reverse(self, decider: Decider) -> None:
        """Begin to write topics back."""
        names = tuple(each.name for each in self._here(decider) if self._is_switched(decider, each))
        if names:
            self._world.ask(decider, ReverseTopics(LINK, (self._rng.choice(names),)))

    @staticmethod
    def _is_switched(decider: Decider, topic: SourceTopic) -> bool:
        return topic.topic_id in decider.state.switches.switched

    def note_reversed(self, decider: Decider) -> None:
        """Write a partition back up to its end in this gateway's replica, and note that offset."""
        truth = self._world.truth
        for each in self._here(decider):
            switched = truth.switches.switched.get(each.topic_id)
            seen = decider.state.switches.switched.get(each.topic_id)
            if switched is None or seen is None or not (switched.reached and seen.reached):
                continue
            numbers = decider.state.topics.by_id[each.topic_id].partition_numbers
            index = self._rng.randrange(len(switched.reached))
            end = decider.state.partitions[numbers[index]].next_offset
            each.partitions[index].take_back(end)
            self._world.ask(decider, NoteReversed(((numbers[index], end),)))
            return

    def end_reverse(self, decider: Decider) -> None:
        """Stop writing back."""
        self._world.ask(decider, EndReverse(LINK))

    def fence_return(self, decider: Decider) -> None:
        """Begin to return a topic."""
        switched = decider.state.switches.switched
        names = [
            each.name
            for each in self._here(decider)
            if (row := switched.get(each.topic_id)) is not None and row.reached
        ]
        if not names:
            return

        def judged(answer: int | str, is_told: bool) -> None:
            if isinstance(answer, int):
                self._world.links.return_fenced(answer)

        self._world.ask(decider, FenceReturn(LINK, (self._rng.choice(names),)), judged)

    def _return(self, decider: Decider, fence: Fence) -> None:
        """Raise the source's leader epochs to those here, and return the topics to the source."""
        sources = self._sources(fence)
        for each in sources:
            topic = decider.state.topics.by_id.get(each.topic_id)
            numbers = topic.partition_numbers if topic is not None else ()
            for number, theirs in zip(numbers, each.partitions, strict=False):
                own = decider.state.partitions[number].leader_epoch
                theirs.leader_epoch = max(theirs.leader_epoch, own)
        proposal = ReturnTopics(fence.number, self._epochs(decider, sources))

        def judged(text: str, is_told: bool) -> None:
            if not text:
                self._world.links.returned(fence.number)

        self._world.ask(decider, proposal, judged)
