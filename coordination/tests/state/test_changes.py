"""Each event's row names all tables that the event changes, so no listener misses a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rules.test_wal_rules import TOPIC
from tests.state.test_trial import REFUSED, busy, kinds, shared_kinds, structs
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import (
    Entry,
    UnreadableEntry,
    check_readable,
    decode_entry,
    encode_entry,
    encode_events,
)
from tidegate_coordination.state import changes
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.tables import StateTables
from tidegate_fuzz.some_events import some_entries

# Every entry changes these fields of the state and of the gateways.
CLOCKS = {"position", "log_time_ms", "expiry_resumes_at_ms"}
CLOCKS_OF_GATEWAYS = {"lease_time_ms", "renewed_at_ms", "clock_ms", "uptime_ms", "wrote"}
# Values that the constant CLUSTER stands for.
OF_CLUSTER = {"cluster_id", "timeline", "metadata_version"}
NO_TABLES = {"highest_version", "touched", "changed", "frozen_states"}
OFFSETS_ID = b"c" * 16
_CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type)


def table_names() -> list[str]:
    """Return the attributes of a state that are tables."""
    names = [each for each in vars(StateTables()) if each not in CLOCKS | OF_CLUSTER | NO_TABLES]
    without = [each for each in names if not hasattr(changes, each.upper())]
    assert without == [], "add a table to state/changes.py, a single value to OF_CLUSTER here"
    return names


def attributes(value: object) -> Iterator[tuple[str, object]]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in (*slots, *getattr(value, "__dict__", ())):
        if hasattr(value, name):
            yield name, getattr(value, name)


class Dump:
    """Turns any table into values that can be compared.

    Other tables that the table refers to are left out, and so are the rows of topics.
    """

    def __init__(self, others: Mapping[int, object]) -> None:
        self._others = others

    def of(self, value: object) -> object:
        if id(value) in self._others:
            return "another table"
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        if type(value) is dict:
            return [(self.of(key), self.of(each)) for key, each in value.items()]
        if isinstance(value, set | frozenset):
            return sorted(map(repr, map(self.of, value)))
        if isinstance(value, _CODE):
            return "code"
        found: list[object] = []
        if isinstance(value, Mapping):
            found += [(self.of(key), self.of(each)) for key, each in value.items()]
        elif hasattr(value, "__iter__") and not hasattr(value, "__dict__"):
            found += map(self.of, value)
        of_object = attributes(value)
        found += [
            (name, self.of(each)) for name, each in of_object if name not in CLOCKS_OF_GATEWAYS
        ]
        return found


def contents(state: ClusterState) -> dict[str, object]:
    """Return what each table holds."""
    tables = {name: getattr(state, name) for name in table_names()}
    found: dict[str, object] = {}
    for name, table in tables.items():
        rows = () if table is state.topics else state.topics.by_id.values()
        others = {id(each): each for each in (*tables.values(), state, *rows) if each is not table}
        found[name] = Dump(others).of(table)
    found["cluster"] = [getattr(state, name) for name in sorted(OF_CLUSTER)]
    return found


def fold(state: ClusterState, entry: Entry) -> None:
    """Fold an entry; compare the changed tables with those that the state reports as changed."""
    before = contents(state)
    state.changed = 0
    state.touched.clear()
    state.apply(state.position + 1, entry)
    after = contents(state)
    changed = {name for name, content in before.items() if content != after[name]}
    if state.touched:
        changed.add("partitions")
    named = {name for name in before if getattr(changes, name.upper()) & state.changed}
    assert changed <= named, f"{entry.events} change {changed - named}: see state/event_rows.py"


def test_each_table_has_its_own_bit() -> None:
    names = [name for name in vars(changes) if name.isupper()]
    bits = {name: getattr(changes, name) for name in names if not name.startswith("_")}
    assert {*bits} == {each.upper() for each in table_names()} | {"EVERY_ENTRY", "CLUSTER"}
    assert sorted(bits.values()) == [1 << at for at in range(len(bits))]


def test_an_entry_without_events_changes_the_clocks_alone() -> None:
    state = ClusterState.decode(busy())
    fold(state, Entry(1, b"n", 1, 2_000_000, ()))
    assert state.changed == changes.EVERY_ENTRY


def test_the_events_of_a_cluster_name_the_tables_that_they_change() -> None:
    state = ClusterState()
    for position, (writer, event) in enumerate(some_entries(), 1):
        data = encode_entry(b"n", writer, 1_000, encode_events([event]), position=position)
        fold(state, decode_entry(data, position))


@cache
def with_offsets_topic() -> bytes:
    """The busy state of a cluster that has `__consumer_offsets`."""
    state = ClusterState.decode(busy())
    topic = ev.TopicCreated(OFFSETS_ID, "__consumer_offsets", 2, 1, {})
    state.apply(state.position + 1, Entry(1, b"n", 1, 1_000_000, (topic,)))
    assert state.offsets_topic.by_number
    return state.encode()


def test_events_of_groups_name_their_records_too() -> None:
    state = ClusterState.decode(with_offsets_topic())
    offset = gev.CommittedOffset(TOPIC, 0, 7, -1, "", 9)
    for event in (
        gev.GroupChanged("g", 1, "consumer", 4, "p", "m", ()),
        gev.OffsetsCommitted("g", 4, (offset,)),
        gev.OffsetsDeleted("g", ((TOPIC, 0),)),
        ev.PartitionsAdded(OFFSETS_ID, 3),
        gev.OffsetsCommitted("g", 4, (offset,)),
        tev.TransactionEnded(4, True, 0, 4, 0, ((1, 3),), 1, tev.CAUSE_CLIENT),
        gev.GroupDeleted("g"),
        ev.TopicDeleted(TOPIC),
        ev.TopicDeleted(OFFSETS_ID),
    ):
        fold(state, Entry(1, b"n", 1, 1_000_000, (event,)))


def check_if_it_folds(before: bytes, events: list[ev.Event]) -> None:
    state = ClusterState.decode(before)
    try:
        encoded = encode_events(events)
        check_readable(events, encoded)
        Trial(state).check(events)
    except (*REFUSED, OverflowError, UnreadableEntry):
        return
    fold(state, decode_entry(encode_entry(b"n", 0, 1_000_000, encoded), 1))


FUZZ = settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@FUZZ
@given(st.data())
@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_any_event_names_the_tables_that_it_changes(
    kind: type[ev.Event], data: st.DataObject
) -> None:
    check_if_it_folds(with_offsets_topic(), [data.draw(structs(kind))])


@settings(FUZZ, max_examples=100)
@given(st.lists(st.sampled_from(list(shared_kinds())).flatmap(structs), min_size=2, max_size=4))
def test_any_entry_names_the_tables_that_it_changes(events: list[Any]) -> None:
    check_if_it_folds(with_offsets_topic(), events)
