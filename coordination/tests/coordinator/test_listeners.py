"""Listeners are called for the tables that they name, in the order of registration."""

from __future__ import annotations

from random import Random

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, StartDraining
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.changes import (
    EVERY_ENTRY,
    GATEWAYS,
    LINKS,
    PRODUCER_IDS,
    TOPICS,
    Tables,
)
from tidegate_coordination.state.cluster import ClusterState


class Heard:
    """Records which listeners were called.

    A coordinator of a registered gateway runs until the block ends.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._names: list[str] = []
        clock = 1_000.0
        self.coordinator = Coordinator(
            MemoryLog(), ClusterState(), rng=Random(1), wall_clock=lambda: clock
        )
        nursery.start_soon(self.coordinator.run)

    def listen(self, name: str, tables: Tables) -> None:
        self.coordinator.listen(lambda _: self._names.append(name), tables)

    def taken(self) -> list[str]:
        names, self._names = self._names, []
        return names


async def test_a_listener_hears_of_its_tables_alone(nursery: trio.Nursery) -> None:
    heard = Heard(nursery)
    heard.listen("gateways", GATEWAYS)
    heard.listen("all", EVERY_ENTRY)
    heard.listen("topics", TOPICS)
    heard.listen("two", TOPICS | PRODUCER_IDS)
    heard.listen("links", LINKS)
    propose = heard.coordinator.propose
    incarnation = await propose(Register(1, "k", "az", (), "0", "c" * 22))
    assert isinstance(incarnation, int)
    heard.coordinator.incarnation = incarnation
    heard.taken()
    await propose(CreateTopics([NewTopic(b"t" * 16, "t")]))
    assert heard.taken() == ["all", "topics", "two"]
    await propose(ReserveProducerIds(10))
    assert heard.taken() == ["all", "two"]
    await propose(StartDraining(incarnation))
    assert heard.taken() == ["gateways", "all"]


async def test_one_call_stands_for_all_entries_that_were_read_together(
    nursery: trio.Nursery,
) -> None:
    heard = Heard(nursery)
    heard.listen("topics", TOPICS)
    async with trio.open_nursery() as proposals:
        for number in range(3):
            topic = NewTopic(bytes([number]) * 16, f"t{number}")
            proposals.start_soon(heard.coordinator.propose, CreateTopics([topic]))
    calls = heard.taken()
    assert 1 <= len(calls) <= heard.coordinator.state.position


async def test_listening_ends_with_its_block(nursery: trio.Nursery) -> None:
    heard = Heard(nursery)
    calls: list[set[int]] = []
    with heard.coordinator.listening(calls.append, TOPICS):
        await heard.coordinator.propose(CreateTopics([NewTopic(b"t" * 16, "t")]))
    assert len(calls) == 1
    await heard.coordinator.propose(CreateTopics([NewTopic(b"s" * 16, "s")]))
    assert len(calls) == 1
