"""Looks for anomalies in a history.  Pure: a history in, violations out; it never saw the gateway.

The same checker can judge a simulation, real processes, and Apache Kafka.  Offsets may have gaps
(control records, compaction): contiguity is never demanded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .history import Event

# Refusals of a correct idempotent producer that only loss or disorder can cause.
_NEVER_REFUSED = frozenset(
    {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"}
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise.  indexes: of the events that show it."""

    kind: str
    text: str
    indexes: tuple[int, ...] = ()


@dataclass(slots=True)
class _Sent:
    """One value, as it was sent."""

    key: int
    place: int
    invoke: Event
    outcome: Event | None = None

    @property
    def acked(self) -> bool:
        return self.outcome is not None and self.outcome.type == "ok"

    @property
    def acked_offset(self) -> int:
        """Return the offset that the acknowledgement gave, or -1."""
        if self.outcome is None or not self.acked:
            return -1
        base: int = _value(self.outcome)["offset"]
        return base + self.place if base >= 0 else -1


_Places = dict[int, dict[int, int]]


@dataclass(slots=True)
class _Facts:
    """What the whole history says, indexed.

    seen: key -> value -> offset -> index of the first poll.  at: key -> offset -> value.
    trimmed: key -> the highest offset below which records may be gone.
    """

    events: Sequence[Event]
    sent: dict[int, _Sent] = field(default_factory=dict[int, _Sent])
    seen: dict[int, _Places] = field(default_factory=lambda: defaultdict(dict))
    at: _Places = field(default_factory=lambda: defaultdict(dict))
    trimmed: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def finished(self, f: str, kind: str = "ok") -> Iterator[tuple[Event, dict[str, Any]]]:
        """Yield the events that end an operation."""
        for event in self.events:
            if event.f == f and event.type == kind:
                yield event, _value(event)

    def is_trimmed(self, sent: _Sent) -> bool:
        """Tell whether a record may be gone; of one without a known offset nobody can tell."""
        before = self.trimmed[sent.key]
        return before > 0 and sent.acked_offset < before


def check(events: Sequence[Event]) -> list[Violation]:
    """Return everything that is wrong with a history."""
    facts = _gather(events)
    return [
        *_offsets(facts),
        *_strangers(facts),
        *_losses(facts),
        *_sends(facts),
        *_refused(facts),
        *_polls(facts),
        *_ends(facts),
        *_commits(facts),
        *_generations(facts),
    ]


def _value(event: Event) -> dict[str, Any]:
    assert event.value is not None
    return event.value


def _gather(events: Sequence[Event]) -> _Facts:
    facts = _Facts(events)
    for event in events:
        match event.f, event.type:
            case "send", "invoke":
                for place, value in enumerate(_value(event)["values"]):
                    facts.sent[value] = _Sent(_value(event)["key"], place, event)
            case "send", _:
                for value in _value(event)["values"]:
                    facts.sent[value].outcome = event
            case "trim", "invoke" | "ok":
                table = _value(event)
                before = max(table["before"], table.get("low", 0))
                facts.trimmed[table["key"]] = max(facts.trimmed[table["key"]], before)
            case "poll", "ok":
                _gather_poll(facts, event)
            case _:
                pass
    return facts


def _gather_poll(facts: _Facts, event: Event) -> None:
    key = _value(event)["key"]
    for offset, value in _value(event)["records"]:
        facts.seen[key].setdefault(value, {}).setdefault(offset, event.index)
        facts.at[key].setdefault(offset, value)


def _offsets(facts: _Facts) -> Iterator[Violation]:
    """Duplicates: one value at two offsets.  Inconsistent: one offset with two values."""
    for key, values in facts.seen.items():
        for value, places in values.items():
            if len(places) > 1:
                text = f"value {value} of key {key} stands at offsets {sorted(places)}"
                yield Violation("duplicate", text, tuple(places.values()))
    for event, table in facts.finished("poll"):
        for offset, value in table["records"]:
            first = facts.at[table["key"]][offset]
            if first != value:
                text = f"offset {offset} of key {table['key']} held {first}, then {value}"
                yield Violation("inconsistent offset", text, (event.index,))
    yield from _wrong_acks(facts)


def _wrong_acks(facts: _Facts) -> Iterator[Violation]:
    for value, sent in facts.sent.items():
        offset = sent.acked_offset
        places = facts.seen[sent.key].get(value)
        if offset >= 0 and places and offset not in places:
            text = f"value {value} was acknowledged at {offset} and stands at {sorted(places)}"
            assert sent.outcome is not None
            yield Violation("inconsistent offset", text, (sent.outcome.index,))


def _strangers(facts: _Facts) -> Iterator[Violation]:
    """Values where they do not belong: nobody's, another key's, or certainly not written."""
    for key, values in facts.seen.items():
        for value, places in values.items():
            where = tuple(places.values())
            sent = facts.sent.get(value)
            if sent is None:
                yield Violation("phantom", f"value {value} of key {key} was never sent", where)
            elif sent.key != key:
                text = f"value {value} of key {sent.key} was read from key {key}"
                yield Violation("foreign record", text, where)
            elif min(where) < sent.invoke.index:
                yield Violation("phantom", f"value {value} was read before it was sent", where)
            elif sent.outcome is not None and sent.outcome.type == "fail":
                yield Violation("failed write", f"value {value} failed and was read", where)


def _losses(facts: _Facts) -> Iterator[Violation]:
    """Lost: acknowledged, and a last reader passed it.  Unseen: no last reader got there."""
    ends = {table["key"]: event for event, table in facts.finished("drained")}
    for value, sent in facts.sent.items():
        if not sent.acked or value in facts.seen[sent.key] or facts.is_trimmed(sent):
            continue
        assert sent.outcome is not None
        kind = "lost" if _is_passed(facts, sent, ends.get(sent.key)) else "unseen"
        text = f"value {value} of key {sent.key} was acknowledged and never read"
        yield Violation(kind, text, (sent.outcome.index,))


def _is_passed(facts: _Facts, sent: _Sent, end: Event | None) -> bool:
    highest = max(facts.at[sent.key], default=-1)
    return end is not None or -1 < sent.acked_offset < highest


def _sends(facts: _Facts) -> Iterator[Violation]:
    """Reordered: offsets of one producer and key fall, in the order of its sends."""
    last: dict[object, tuple[int, int]] = {}
    for value, sent in facts.sent.items():
        producer = _value(sent.invoke)["producer"]
        offset = _offset_of(facts, value, sent)
        if offset is None or (producer is None and not sent.acked):
            continue
        who = tuple(producer) if producer is not None else sent.invoke.process
        before, earlier = last.get((who, sent.key), (-1, -1))
        if offset <= before:
            text = (
                f"{who} sent {earlier} before {value} to key {sent.key};"
                f" they stand at {before} and {offset}"
            )
            yield Violation("reordered send", text, (sent.invoke.index,))
        last[who, sent.key] = (offset, value)


def _offset_of(facts: _Facts, value: int, sent: _Sent) -> int | None:
    places = facts.seen[sent.key].get(value)
    if places:
        return min(places)
    return sent.acked_offset if sent.acked_offset >= 0 else None


def _refused(facts: _Facts) -> Iterator[Violation]:
    """An idempotent producer was refused for what only a loss of its records explains."""
    for event in facts.events:
        table = event.value or {}
        if event.f == "send" and table["producer"] and table.get("error") in _NEVER_REFUSED:
            text = f"{event.process}'s next batch was refused: {table['error']}"
            yield Violation("refused send", text, (event.index,))


def _polls(facts: _Facts) -> Iterator[Violation]:
    """What an assigned reader got: rising offsets, nothing left out, no false end."""
    positions: dict[tuple[str, int], int] = {}
    for event in facts.events:
        if event.f == "assign":
            positions = {at: p for at, p in positions.items() if at[0] != event.process}
        elif event.f == "poll" and event.type == "ok":
            table = _value(event)
            yield from _poll(facts, event, positions.get((event.process, table["key"]), 0))
            positions[event.process, table["key"]] = table["next"]
        elif event.f == "poll" and event.type == "fail":
            yield from _false_range(facts, event)


def _poll(facts: _Facts, event: Event, position: int) -> Iterator[Violation]:
    table = _value(event)
    key, offsets = table["key"], [offset for offset, _ in table["records"]]
    falls = any(one >= other for one, other in pairwise(offsets))
    if falls or (offsets and offsets[0] < position):
        text = f"{event.process} at {position} of key {key} read {offsets}"
        yield Violation("non-monotonic poll", text, (event.index,))
    got = set(offsets)
    first = max(table["position"], facts.trimmed[key])
    skipped = [o for o in facts.at[key] if first <= o < table["next"] and o not in got]
    if skipped:
        text = f"{event.process} went past {sorted(skipped)} of key {key} without seeing them"
        yield Violation("skipped", text, (event.index,))


def _false_range(facts: _Facts, event: Event) -> Iterator[Violation]:
    """OFFSET_OUT_OF_RANGE at a position that somebody had reached before."""
    table = _value(event)
    key, position = table["key"], table["position"]
    if table["error"] != "OFFSET_OUT_OF_RANGE" or position < facts.trimmed[key]:
        return
    reached = [
        each.index
        for each, other in facts.finished("poll")
        if other["key"] == key and other["next"] >= position and each.index < event.of
    ]
    if reached or not position:
        text = f"{event.process} was told that {position} of key {key} does not exist"
        yield Violation("false out of range", text, (event.index,))


def _ends(facts: _Facts) -> Iterator[Violation]:
    """An end offset is above everything that was acknowledged or read before it was asked for."""
    for event, table in facts.finished("end"):
        key, reached = table["key"], -1
        for each in facts.events[: event.of]:
            if each.type == "ok" and each.value is not None and each.value.get("key") == key:
                reached = max(reached, _reached(each))
        if table["offset"] <= reached:
            text = f"key {key} was said to end at {table['offset']}, with {reached} known before"
            yield Violation("stale end", text, (event.index,))


def _reached(event: Event) -> int:
    table = _value(event)
    if event.f == "send" and table["offset"] >= 0:
        return int(table["offset"]) + len(table["values"]) - 1
    if event.f == "poll" and table["records"]:
        return int(table["records"][-1][0])
    return -1


@dataclass(slots=True)
class _Commit:
    """One commit; done: index of its ok.  Without one it may take effect at any time."""

    offset: int
    began: int
    done: int | None = None


def _commits(facts: _Facts) -> Iterator[Violation]:
    """Committed offsets are a register: a read gives the last commit, or one that was under way."""
    for (group, key), commits in _gather_commits(facts).items():
        for event, table in facts.finished("fetched"):
            if (table["group"], table["key"]) != (group, key):
                continue
            possible = _possible(commits, event)
            if table["offset"] in possible:
                continue
            kind = "vanished commit" if table["offset"] is None else "stale commit"
            text = f"group {group} of key {key} had {table['offset']}, not {possible}"
            yield Violation(kind, text, (event.index,))


def _gather_commits(facts: _Facts) -> dict[tuple[str, int], list[_Commit]]:
    registers: dict[tuple[str, int], list[_Commit]] = defaultdict(list)
    by_index: dict[int, _Commit] = {}
    failed = {event.of for event, _ in facts.finished("commit", "fail")}
    for event in facts.events:
        if event.f == "fetched" and event.type == "invoke":
            registers.setdefault((_value(event)["group"], _value(event)["key"]), [])
        elif event.f == "commit" and event.type == "invoke" and event.index not in failed:
            commit = _Commit(_value(event)["offset"], event.index)
            by_index[event.index] = commit
            registers[_value(event)["group"], _value(event)["key"]].append(commit)
        elif event.f == "commit" and event.type == "ok":
            by_index[event.of].done = event.index
    return registers


def _possible(commits: Sequence[_Commit], read: Event) -> list[int | None]:
    """Return what a read may give: nothing that was overwritten for certain before it began."""
    before = [c for c in commits if c.done is not None and c.done < read.of]
    last_begun = max((c.began for c in before), default=-1)
    open_yet: list[int | None] = [
        c.offset
        for c in commits
        if c.began < read.index and (c.done is None or c.done >= last_begun)
    ]
    return open_yet if before else [None, *open_yet]


def _generations(facts: _Facts) -> Iterator[Violation]:
    """Generations rise; within one, each key has one owner; commits of former ones are refused."""
    highest: dict[str, list[tuple[int, int]]] = defaultdict(list)
    owners: dict[tuple[str, int, int], str] = {}
    for event, table in facts.finished("joined"):
        group, generation = table["group"], table["generation"]
        if generation < _generation_before(highest[group], event.of):
            text = (
                f"{table['member']} joined generation {generation} of group {group} after a later"
            )
            yield Violation("generation fell", text, (event.index,))
        highest[group].append((event.index, generation))
        for key in table["keys"]:
            owner = owners.setdefault((group, generation, key), table["member"])
            if owner != table["member"]:
                text = f"key {key} in generation {generation}: {owner} and {table['member']}"
                yield Violation("two owners", text, (event.index,))
    for event, table in facts.finished("commit"):
        before = _generation_before(highest[table["group"]], event.of)
        if table.get("generation", before) < before:
            text = f"generation {table['generation']} committed when {before} was complete"
            yield Violation("zombie commit", text, (event.index,))


def _generation_before(joined: Sequence[tuple[int, int]], index: int) -> int:
    return max((generation for at, generation in joined if at < index), default=-1)
