"""If a topic ends, its open transactions are the same that a walk over all of them finds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.groups import CommittedOffset
from tidegate_coordination.state.transactions.open import OpenTransaction
from tidegate_coordination.state.transactions.staged_names import StagedNames
from tidegate_coordination.state.transactions.table import TransactionTable

PRODUCERS = range(4)
NUMBERS = range(6)
TOPICS = (b"a" * 16, b"b" * 16, b"c" * 16)
GROUPS = ("g", "h")
NOW_MS = 5

Steps = list[tuple[str, int, int, int]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grow"] * 3 + ["stage"] * 3 + ["end", "drop", "drop_offsets", "restore"]),
        st.sampled_from(PRODUCERS),
        st.sampled_from(NUMBERS),
        st.sampled_from(range(4)),
    ),
    max_size=40,
)


class World:
    """A table with some transactional ids."""

    def __init__(self) -> None:
        self.table = TransactionTable()
        for each in PRODUCERS:
            begun = tev.TransactionalIdInitialised(f"x{each}", each, 0, -1, -1, 60_000)
            self.table.fold_initialised(begun, NOW_MS)
        self.gone: set[int] = set()

    def grow(self, producer: int, number: int, _: int) -> None:
        if number not in self.gone:
            self.table.fold_grew(tev.TransactionGrew(producer, (number,), ()), NOW_MS, 1)

    def stage(self, producer: int, number: int, at: int) -> None:
        offset = CommittedOffset(TOPICS[number % len(TOPICS)], at, 5, -1, "", NOW_MS)
        staged = tev.OffsetsStaged(producer, GROUPS[at % len(GROUPS)], 0, (offset,))
        self.table.fold_staged(staged, NOW_MS, 1)

    def end(self, producer: int, _number: int, _: int) -> None:
        marks = (0, producer, 0, (), NOW_MS, tev.CAUSE_CLIENT)
        self.table.fold_ended(tev.TransactionEnded(producer, True, *marks), NOW_MS)

    def drop(self, _: int, number: int, _at: int) -> None:
        """Drop a partition; its number is not used again."""
        self.gone.add(number)
        self.table.drop_partitions(self.table.with_partitions((number,)))

    def drop_offsets(self, _: int, number: int, _at: int) -> None:
        """Drop the staged offsets of a topic; a mirrored topic may return with the same id."""
        for group_id, keys in self.table.staged_of(TOPICS[number % len(TOPICS)]):
            self.table.drop_offsets(group_id, keys)

    def restore(self, *_: int) -> None:
        rows = [self.table._encode_row(name) for name in self.table.names()]
        self.table = TransactionTable()
        self.table.decode(rows)

    def open(self) -> dict[str, OpenTransaction]:
        found = {name: self.table.open_of(name) for name in self.table.open_ids()}
        return {name: each for name, each in found.items() if each is not None}

    def check(self) -> None:
        opened = self.open()
        for numbers in ((each, (each + 1) % len(NUMBERS)) for each in NUMBERS):
            held = {
                name: sorted({*numbers}.intersection(each.partitions))
                for name, each in opened.items()
            }
            wanted = {name: each for name, each in held.items() if each}
            assert self.table.with_partitions(numbers) == wanted
        for topic_id in TOPICS:
            staged = {
                (group_id, key)
                for each in opened.values()
                for group_id, keys in each.groups.items()
                for key in keys
                if key[0] == topic_id
            }
            found = self.table.staged_of(topic_id)
            assert {(group_id, key) for group_id, keys in found for key in keys} == staged
            assert len({group_id for group_id, _ in found}) == len(found)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STEPS)
def test_the_answers_are_those_of_a_walk(steps: Steps) -> None:
    world = World()
    for kind, producer, number, at in steps:
        getattr(world, kind)(producer, number, at)
        world.check()


def test_topics_that_end_together_walk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, walks = World(), list[str]()
    for each in PRODUCERS:
        world.grow(each, each, 0)
        world.stage(each, each, each)

    def count(kind: type[Any], name: str) -> None:
        walk = getattr(kind, name)

        def counted(self: Any) -> Any:
            walks.append(name)
            return walk(self)

        monkeypatch.setattr(kind, name, counted)

    count(TransactionTable, "_by_partition")
    count(StagedNames, "_by_topic")
    for each in NUMBERS:
        world.drop(0, each, 0)
        world.drop_offsets(0, each, 0)
    assert walks == ["_by_partition", "_by_topic"]
    assert not any(each.partitions or any(each.groups.values()) for each in world.open().values())
