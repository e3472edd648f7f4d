"""Administrative requests are decided as things stood when their names were looked up, or not.

A request may be decided late: its proposal lost a race, or waited at a gateway that decides for
others, or this process stood still.  Its client may have gone on through another gateway meanwhile,
and deleted the topic that a name stood for, or set a config again.  So names become ids here, with
the log read to its end, and a proposal says up to where; what was changed behind that is looked up
and proposed again, but only soon after the client asked.  See decision 22.
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
"""Clients wait at least as long, so none has gone on elsewhere."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answers = TypeVar("Answers")


class Look:
    """What one request of a client names; begun when its turn on its connection came."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._until = trio.current_time() + LOOK_SECONDS
        self._seen = coordinator.state.position
        self._topics: dict[str, Topic | None] = {}

    @property
    def _is_late(self) -> bool:
        return trio.current_time() > self._until or self._coordinator.standstill.is_recent

    def check(self) -> None:
        """See that the client still waits, as far as can be told; decide by what stands here now.

        Raises:
          CoordinatorUnavailable: perhaps not.  Nothing was proposed.
        """
        if self._is_late:
            raise CoordinatorUnavailable("nothing was proposed: the request may be too old by now")
        self._seen = self._coordinator.state.position

    async def take(self, names: Iterable[str] = ()) -> None:
        """Look up topics by name, with the log read to its end.

        Raises:
          CoordinatorUnavailable: nothing was proposed.  The log did not answer, or the client may
            wait no more.
        """
        await self._coordinator.catch_up()
        self.check()
        by_name = self._coordinator.state.topics.by_name
        self._topics = {name: by_name.get(name) for name in names}

    def topic(self, name: str) -> Topic | None:
        """Return the topic that a name stood for at take()."""
        return self._topics[name]

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the ids of topics at take(), by name; b"" for none."""
        found = ((name, self._topics[name]) for name in names)
        return {name: topic.topic_id if topic is not None else b"" for name, topic in found}

    async def propose(
        self,
        items: Sequence[Item],
        make: Callable[[Sequence[Item], int], Proposal[Sequence[Answer]]],
        is_changed: Callable[[Answer], bool],
    ) -> list[Answer]:
        """Have items decided, as they were when looked up; result[i] belongs to items[i].

        A large request is proposed in parts, and calls this for each.  All say the same `seen`:
        the last one may be proposed long after the client asked.

        make: their proposal, given what it is to say it has `seen`.  is_changed: tells of an answer
        that others changed the item behind that.  Such a one is returned only if it is late.

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
        """Decide by what stands here now if the client still waits; tell whether it does."""
        if self._is_late:
            return False
        await self._coordinator.catch_up()
        if self._is_late:  # what was read may be newer than the client's patience
            return False
        self._seen = self._coordinator.state.position
        return True

    async def told(self, proposal: Proposal[Answers]) -> Answers:
        """Have it decided before nothing waits for it any more.

        Raises:
          CoordinatorUnavailable, ProposalFailed: see Coordinator.propose.
        """
        try:
            return await self._coordinator.propose(proposal, expires=True)
        except ProposalFailed as failure:
            if str(failure) != TOO_LATE:
                raise  # another gateway would do no better
            raise CoordinatorUnavailable(f"nothing came of it: {failure}") from failure


def is_changed(answer: object) -> bool:
    """Tell of an answer about a topic that others changed it since it was looked up."""
    return isinstance(answer, Refused) and answer.reason is TopicRefusal.CHANGED


def is_config_changed(answer: ConfigRefused | None) -> bool:
    """Tell that of an answer about configs."""
    return answer is not None and answer.reason is ConfigRefusal.CHANGED
