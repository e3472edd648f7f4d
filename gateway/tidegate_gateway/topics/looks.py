"""Looks up the names of an administrative request, so that a late proposal changes nothing.

A proposal may be decided late: its append got CONFLICT, or it waited at the leading gateway, or
this process stood still.  Meanwhile the client may have used another gateway to delete the topic of
that name, or to set a config again.  So this module reads the log to its end and turns names into
ids, and the proposal carries the log position of this look.  If an item changed after the position,
the rules refuse it.  The gateway then looks the item up and proposes it again, but only while the
client probably still waits.  See decision 22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.rules.configs import ConfigRefusal, ConfigRefused
from tidegate_coordination.rules.numbered import TOO_LATE
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.topics import Refused, TopicRefusal
from tidegate_coordination.state.topics import Topic

LOOK_SECONDS: Final = 5.0
"""Clients wait at least as long, so none has continued through another gateway."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answers = TypeVar("Answers")


class Look:
    """The looked-up names of one client's request.

    It is made when the gateway begins the request.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._until = trio.current_time() + LOOK_SECONDS
        self._seen = coordinator.state.position
        self._topics: dict[str, Topic | None] = {}

    @property
    def _is_late(self) -> bool:
        return trio.current_time() > self._until or self._coordinator.standstill.is_recent

    def check(self) -> None:
        """Check that the client probably still waits, and take this replica's position as `seen`.

        Raises:
          CoordinatorUnavailable: the client may no longer wait.  Nothing was proposed.
        """
        if self._is_late:
            raise CoordinatorUnavailable("nothing was proposed: the request may be too old by now")
        self._seen = self._coordinator.state.position

    async def take(self, names: Iterable[str] = ()) -> None:
        """Look up topics by name, with the log read to its end.

        Raises:
          CoordinatorUnavailable: the log did not answer, or the client may no longer wait.  Nothing
            was proposed.
        """
        await self._coordinator.catch_up()
        self.check()
        by_name = self._coordinator.state.topics.by_name
        self._topics = {name: by_name.get(name) for name in names}

    def topic(self, name: str) -> Topic | None:
        """Return the topic that had a name at take(); None if there was none."""
        return self._topics[name]

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the ids of topics by name, as of take(); b"" for a topic that did not exist."""
        found = ((name, self._topics[name]) for name in names)
        return {name: topic.topic_id if topic is not None else b"" for name, topic in found}

    async def propose(
        self,
        items: Sequence[Item],
        make: Callable[[Sequence[Item], int], Proposal[Sequence[Answer]]],
        is_changed: Callable[[Answer], bool],
    ) -> list[Answer]:
        """Propose items as they were looked up; result[i] belongs to items[i].

        A large request is proposed in parts, with one call for each.  All parts carry the same
        `seen`, since the last part may be proposed long after the client's request.

        make: makes the proposal of items with a `seen`.  is_changed: returns whether an answer says
        that its item changed after `seen`.  Such items are proposed again.  Their answer is
        returned only if it is too late to propose them again.

        Raises:
          CoordinatorUnavailable, ProposalFailed: see Coordinator.propose.
        """
        answers: dict[int, Answer] = {}
        left: list[int] = list(range(len(items)))
        while left:
            some = make([items[each] for each in left], self._seen)
            told = await self.told(some)
            answers.update(zip(left, told, strict=True))
            left = [each for each in left if is_changed(answers[each])]
            if left and not await self._looked_again():
                break
        return [answers[each] for each in range(len(items))]

    async def _looked_again(self) -> bool:
        """If the client still waits, read the log to its end and take its position as `seen`.

        Returns whether the client still waits.
        """
        if self._is_late:
            return False
        await self._coordinator.catch_up()
        # the client may have stopped waiting before the entries that were just read
        if self._is_late:
            return False
        self._seen = self._coordinator.state.position
        return True

    async def told(self, proposal: Proposal[Answers]) -> Answers:
        """Return the answer to a proposal that expires when its caller no longer waits.

        Raises:
          CoordinatorUnavailable, ProposalFailed: see Coordinator.propose.
        """
        try:
            return await self._coordinator.propose(proposal, expires=True)
        except ProposalFailed as failure:
            if str(failure) != TOO_LATE:
                raise  # the proposal would also fail at another gateway
            raise CoordinatorUnavailable(f"the proposal had no effect: {failure}") from failure


def is_changed(answer: object) -> bool:
    """Return whether an answer says that its topic changed since it was looked up."""
    return isinstance(answer, Refused) and answer.reason is TopicRefusal.CHANGED


def is_config_changed(answer: ConfigRefused | None) -> bool:
    """Return whether an answer says that its configs changed since they were looked up."""
    return answer is not None and answer.reason is ConfigRefusal.CHANGED
