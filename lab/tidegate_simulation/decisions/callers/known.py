"""The common knowledge of callers: topics, producers, spare ids and names of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tidegate_coordination.state.records.objects import WalName

from ..decider import Decider
from ..promises.moment import Place
from ..world import World
from .writer import Writer

NAMES: Final = ("apples", "pears", "plums", "figs")
LINKED_GROUPS: Final = ("billing", "audit")
GROUPS: Final = ("readers", "counters", "billing")
TRANSACTIONAL_IDS: Final = ("payments", "orders", "moves")
PRODUCERS: Final = 4
_STRAY: Final = 0.02

Operation: TypeAlias = Callable[[Decider], None]
Operations: TypeAlias = tuple[tuple[Operation, int], ...]
"""With their weights."""


class Known:
    """See the module's head.

    topics: name and number of partitions, by id.  claims: epochs, by incarnation and name.
    """

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.topics: Final[dict[bytes, tuple[str, int]]] = {}
        self.writers: Final = [Writer(name) for name in ("",) * PRODUCERS + TRANSACTIONAL_IDS]
        self.spare: Final[list[int]] = []
        self.claims: Final[dict[tuple[int, str], int]] = {}
        self._counters: dict[int, int] = {}

    def place(self) -> Place:
        """Return any partition; at times one more than there are."""
        rng = self.world.rng
        topic_id = rng.choice(list(self.topics))
        return topic_id, rng.randrange(self.topics[topic_id][1] + (rng.random() < _STRAY))

    def new_object(self, incarnation: int) -> WalName:
        """Return the name of the next object of an incarnation."""
        counter = self._counters.get(incarnation, 0) + 1
        self._counters[incarnation] = counter
        return WalName(incarnation, counter)

    def last_object(self, incarnation: int) -> WalName | None:
        """Return the name of the last object of an incarnation."""
        counter = self._counters.get(incarnation)
        return WalName(incarnation, counter) if counter else None

    def spare_id(self) -> int | None:
        """Return a producer id for a client.  Gateways give out no ids of old blocks."""
        is_young = self.world.records.is_young
        self.spare[:] = [each for each in self.spare if is_young(each)]
        return self.spare.pop(0) if self.spare else None

    def created(self, topic_id: bytes, name: str, count: int) -> None:
        """Record a topic that is there now."""
        if any(name == known for known, _ in self.topics.values()):
            self.world.complain(f"there are two topics {name}")
        self.grown(topic_id, name, count)

    def grown(self, topic_id: bytes, name: str, count: int) -> None:
        """Record how many partitions a topic has."""
        self.topics[topic_id] = (name, count)
        self.world.records.grew(topic_id, count)

    def deleted(self, topic_id: bytes) -> None:
        """Record that a topic is gone."""
        self.topics.pop(topic_id, None)
        self.world.records.deleted(topic_id)
        self.world.configs.forget(topic_id)
        self.world.transactions.deleted(topic_id)
        self.world.offsets.forget(lambda key: key[1] == topic_id)


class Caller:
    """The callers of one subject, with their operations."""

    operations: Operations = ()

    def __init__(self, known: Known) -> None:
        self._known: Final = known
        self._world: Final = known.world
        self._rng: Final = known.world.rng
