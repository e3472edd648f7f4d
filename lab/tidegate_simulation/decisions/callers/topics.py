"""Callers that make, grow and delete topics."""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.topics import (
    Created,
    CreatePartitions,
    CreateTopics,
    Deleted,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicKey,
)

from ..decider import Decider
from .known import NAMES, Caller, Known

_PARTITIONS: Final = 3


class TopicCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.create, 5),
            (self.grow, 2),
            (self.delete, 1),
        )

    def create(self, decider: Decider) -> None:
        """Create topics."""
        names = self._rng.sample(NAMES, 2)
        topics = [
            NewTopic(self._rng.randbytes(16), name, self._rng.randint(1, _PARTITIONS), 1)
            for name in names
        ]

        def judged(answers: list[Any], is_told: bool) -> None:
            for topic, answer in zip(topics, answers, strict=True):
                if isinstance(answer, Created):
                    self._known.created(answer.topic_id, topic.name, answer.partition_count)

        self._world.ask(decider, CreateTopics(topics), judged)

    def grow(self, decider: Decider) -> None:
        """Grow a topic."""
        if not self._known.topics:
            return
        topic_id = self._rng.choice(list(self._known.topics))
        name, count = self._known.topics[topic_id]
        proposal = CreatePartitions([Growth(name, count + 1)], topic_ids={name: topic_id})

        def judged(answers: list[Any], is_told: bool) -> None:
            if answers[0] is None:
                self._known.grown(topic_id, name, count + 1)

        self._world.ask(decider, proposal, judged)

    def delete(self, decider: Decider) -> None:
        """Delete a topic by its id."""
        if not self._known.topics:
            return
        topic_id = self._rng.choice(list(self._known.topics))

        def judged(answers: list[Any], is_told: bool) -> None:
            if isinstance(answers[0], Deleted):
                self._known.deleted(topic_id)

        self._world.ask(decider, DeleteTopics([TopicKey(None, topic_id)]), judged)
