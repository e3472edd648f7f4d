"""A history, indexed for all checks.  See checker.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .history import Event
from .keyed import Keyed


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken guarantee.  indexes: of the events that show it."""

    kind: str
    text: str
    indexes: tuple[int, ...] = ()


@dataclass(slots=True)
class Sent:
    """One value, as sent.  place: in its batch."""

    key: int
    place: int
    invoke: Event
    outcome: Event | None = None

    @property
    def acked(self) -> bool:
        """Return whether it was acknowledged."""
        return self.outcome is not None and self.outcome.type == "ok"

    @property
    def acked_offset(self) -> int:
        """Return the offset that the acknowledgement gave, or -1."""
        if self.outcome is None or not self.acked:
            return -1
        base: int = value_of(self.outcome)["offset"]
        return base + self.place if base >= 0 else -1

    @property
    def producer(self) -> tuple[int, int] | None:
        """Return the producer id and epoch."""
        producer = value_of(self.invoke)["producer"]
        return (producer[0], producer[1]) if producer else None


Places = dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Lost:
    """A range of offsets that a repair declared lost.  index: of the note of the repair."""

    base: int
    next: int
    index: int


@dataclass(frozen=True, slots=True)
class Back:
    """A range of offsets that a repair brought back.  start: the log start since then."""

    base: int
    next: int
    start: int
    index: int


@dataclass(slots=True)
class Facts:
    """The facts of a whole history.

    seen: key -> value -> offset -> index of the first poll.  at: key -> offset -> value.
    trimmed: key -> the highest offset below which records may be gone.
    topics: key -> the topic that a note names.  dropped: key -> index of the first invoke of its
    deletion.  gone: key -> index of the first ok of its deletion.  retention: key -> (ms, bytes).
    compacted: key -> the rules for its record keys.  same_key: (key, record key) -> values.
    lost: key -> the ranges declared lost.  back: key -> the ranges that came back.
    first: key -> its first offset ever, if it is not 0.
    committed: the transactions that certainly committed.
    """

    events: Sequence[Event]
    sent: dict[int, Sent] = field(default_factory=dict[int, Sent])
    seen: dict[int, Places] = field(default_factory=lambda: defaultdict(dict))
    at: Places = field(default_factory=lambda: defaultdict(dict))
    trimmed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    topics: dict[int, str] = field(default_factory=dict[int, str])
    dropped: dict[int, int] = field(default_factory=dict[int, int])
    gone: dict[int, int] = field(default_factory=dict[int, int])
    retention: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    compacted: dict[int, Keyed] = field(default_factory=dict[int, Keyed])
    same_key: dict[tuple[int, int], list[int]] = field(
        default_factory=dict[tuple[int, int], list[int]]
    )
    lost: dict[int, list[Lost]] = field(default_factory=lambda: defaultdict(list))
    back: dict[int, list[Back]] = field(default_factory=lambda: defaultdict(list))
    first: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    committed: set[str] = field(default_factory=set[str])

    def is_lost(self, key: int, offset: int, index: int) -> bool:
        """Return whether a repair had declared a record lost before the event of that index.

        A gateway that has not read to the log's end need not know that the record came back; see
        checks_back.py.
        """
        return any(
            each.base <= offset < each.next and each.index < index
            for each in self.lost.get(key, ())
        )

    def may_begin_at(self, key: int, start: int, index: int) -> bool:
        """Return whether, before an event, a repair had moved the log start down to this offset."""
        return any(each.start <= start and each.index < index for each in self.back.get(key, ()))

    def finished(self, f: str, kind: str = "ok") -> Iterator[tuple[Event, dict[str, Any]]]:
        """Yield the events that end an operation."""
        for event in self.events:
            if event.f == f and event.type == kind:
                yield event, value_of(event)

    def may_be_gone(self, value: int) -> bool:
        """Return whether a record may be gone.

        If its offset is unknown, it may be part of any loss of its key.
        """
        sent = self.sent[value]
        if sent.key in self.dropped or self.may_be_compacted(value, sent.acked_offset):
            return True
        before, offset = self.trimmed[sent.key], sent.acked_offset
        if self.is_lost(sent.key, offset, len(self.events)):
            return True
        return (before > 0 and offset < before) or (offset < 0 and sent.key in self.lost)

    def may_be_compacted(self, value: int, offset: int) -> bool:
        """Return whether compaction may have removed a record.  offset: -1 if unknown.

        It removes records that have a newer one of their key, tombstones without a newer one, and
        records of aborted transactions.
        """
        sent = self.sent.get(value)
        keyed = self.compacted.get(sent.key) if sent is not None else None
        if sent is None or keyed is None:
            return False
        if keyed.is_tombstone(value) or self._may_be_aborted(sent):
            return True
        others = self.same_key.get((sent.key, value % keyed.keys), ())
        return any(self._may_be_newer(self.sent[other], other, sent, offset) for other in others)

    def _may_be_aborted(self, sent: Sent) -> bool:
        name = value_of(sent.invoke).get("txn")
        return name is not None and name not in self.committed

    def _may_be_newer(self, other: Sent, value: int, sent: Sent, offset: int) -> bool:
        """Return whether another record of the same record key may have a higher offset."""
        if other is sent or (other.outcome is not None and other.outcome.type == "fail"):
            return False
        places = self.seen[other.key].get(value)
        stands_at = max(places) if places else other.acked_offset
        if offset >= 0 and stands_at >= 0:
            return stands_at > offset
        # A record whose send ended before the other's began has the lower offset.
        return other.outcome is None or not (
            other.acked and other.outcome.index < sent.invoke.index
        )

    def may_stand_in(self, sent: Sent, key: int) -> bool:
        """Return whether a client may read a record from a key.

        A record sent by name, without an acknowledgement, may be in any topic that has had the
        name.
        """
        if sent.key == key:
            return True
        by_name = value_of(sent.invoke).get("by_name") and not sent.acked
        topic = self.topics.get(sent.key)
        return bool(by_name) and topic is not None and topic == self.topics.get(key)


def value_of(event: Event) -> dict[str, Any]:
    """Return the value of an event that must have one."""
    assert event.value is not None
    return event.value


def gather(events: Sequence[Event]) -> Facts:
    """Index a history."""
    facts = Facts(events)
    for event in events:
        if event.f == "send":
            _gather_send(facts, event)
        elif event.f in ("poll", "low", "trim"):
            _gather_read(facts, event)
        elif event.f in ("created", "delete", "retention", "compacted"):
            _gather_topic(facts, event)
        elif event.f in ("lost", "back"):
            _gather_lost(facts, event)
        elif event.f == "end_txn":
            if event.type == "ok" and value_of(event)["commit"]:
                facts.committed.add(value_of(event)["txn"])
        elif event.f == "begins":
            facts.first[value_of(event)["key"]] = value_of(event)["offset"]
    _gather_retained(facts)
    _gather_same(facts)
    return facts


def _gather_send(facts: Facts, event: Event) -> None:
    table = value_of(event)
    for place, value in enumerate(table["values"]):
        if event.type == "invoke":
            facts.sent[value] = Sent(table["key"], place, event)
        else:
            facts.sent[value].outcome = event


def _gather_read(facts: Facts, event: Event) -> None:
    table = value_of(event)
    key = table["key"]
    if event.f == "trim" and event.type in ("invoke", "ok"):
        before = max(table["before"], table.get("low", 0))
        facts.trimmed[key] = max(facts.trimmed[key], before)
    elif event.f == "poll" and event.type == "ok":
        for offset, value in table["records"]:
            facts.seen[key].setdefault(value, {}).setdefault(offset, event.index)
            facts.at[key].setdefault(offset, value)


def _gather_topic(facts: Facts, event: Event) -> None:
    table = value_of(event)
    if event.f == "retention":
        facts.retention[table["key"]] = (table["ms"], table["bytes"])
    elif event.f == "compacted":
        facts.compacted[table["key"]] = Keyed(table["keys"], table["tombstones"])
    elif event.f == "created":
        facts.topics.update(dict.fromkeys(table["keys"], table["topic"]))
    elif event.type == "invoke":
        for key in table["keys"]:
            facts.dropped.setdefault(key, event.index)
    elif event.type == "ok":
        for key in table["keys"]:
            facts.gone.setdefault(key, event.index)


def _gather_same(facts: Facts) -> None:
    """Group the values by record key."""
    for value, sent in facts.sent.items():
        keyed = facts.compacted.get(sent.key)
        if keyed is not None:
            facts.same_key.setdefault((sent.key, value % keyed.keys), []).append(value)


def _gather_lost(facts: Facts, event: Event) -> None:
    """Note lost and returned ranges; a lost range at the beginning raises the log start."""
    table = value_of(event)
    key = table["key"]
    if event.f == "back":
        back = Back(table["base"], table["next"], table["start"], event.index)
        facts.back[key].append(back)
        return
    facts.lost[key].append(Lost(table["base"], table["next"], event.index))
    if table["start"] >= table["next"]:
        facts.trimmed[key] = max(facts.trimmed[key], table["start"])


def _gather_retained(facts: Facts) -> None:
    """Below a log start that a client saw, retention may have removed old enough records."""
    for event, key, start in log_starts(facts):
        if key in facts.retention and event.type == "ok":
            facts.trimmed[key] = max(facts.trimmed[key], start)


def log_starts(facts: Facts) -> Iterator[tuple[Event, int, int]]:
    """Yield (event, key, log start) for every answer with a log start."""
    for event in facts.events:
        if event.type != "ok" or event.f not in ("poll", "low", "trim"):
            continue
        table = value_of(event)
        start = table.get({"poll": "start", "low": "offset", "trim": "low"}[event.f])
        if start is not None:
            yield event, table["key"], start
