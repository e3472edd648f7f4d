"""Checks of reads: the records, answers and refusals that a reader got."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from .facts import Facts, Violation, log_starts, value_of
from .history import Event

# Two correct gateways' clocks may differ by this much.
CLOCK_MS: Final = 5_000
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"})


def polls(facts: Facts) -> Iterator[Violation]:
    """The polls of an assigned reader: rising offsets, no record left out, no false end."""
    positions: dict[tuple[str, int], int] = {}
    for event in facts.events:
        if event.f == "assign":
            positions = {at: p for at, p in positions.items() if at[0] != event.process}
        elif event.f == "poll" and event.type == "ok":
            table = value_of(event)
            yield from _poll(facts, event, positions.get((event.process, table["key"]), 0))
            positions[event.process, table["key"]] = table["next"]
        elif event.f == "poll" and event.type == "fail":
            yield from _false_range(facts, event)


def _poll(facts: Facts, event: Event, position: int) -> Iterator[Violation]:
    table = value_of(event)
    key, offsets = table["key"], [offset for offset, _ in table["records"]]
    falls = any(one >= other for one, other in pairwise(offsets))
    if falls or (offsets and offsets[0] < position):
        text = f"{event.process} at {position} of key {key} read {offsets}"
        yield Violation("non-monotonic poll", text, (event.index,))
    if offsets and offsets[-1] >= table.get("hw", offsets[-1] + 1):
        text = f"{event.process} read {offsets[-1]} of key {key} at high watermark {table['hw']}"
        yield Violation("above high watermark", text, (event.index,))
    got = set(offsets)
    first = max(table["position"], facts.trimmed[key])
    if table.get("committed"):
        return  # see checks_transactions.py
    skipped = [
        offset
        for offset, value in facts.at[key].items()
        if first <= offset < table["next"] and offset not in got
        if not facts.may_be_compacted(value, offset)
        if not facts.is_lost(key, offset, event.index)
    ]
    if skipped:
        text = f"{event.process} went past {sorted(skipped)} of key {key} without seeing them"
        yield Violation("skipped", text, (event.index,))


def _false_range(facts: Facts, event: Event) -> Iterator[Violation]:
    """Yield OFFSET_OUT_OF_RANGE at a position that some client had reached before."""
    table = value_of(event)
    key, position = table["key"], table["position"]
    if table["error"] != "OFFSET_OUT_OF_RANGE" or position < max(
        facts.trimmed[key], facts.first[key]
    ):
        return
    reached = [
        each.index
        for each, other in facts.finished("poll")
        if other["key"] == key and other["next"] >= position and each.index < event.of
    ]
    if reached or position == facts.first[key]:
        text = f"{event.process} got the answer that {position} of key {key} does not exist"
        yield Violation("false out of range", text, (event.index,))


def links(facts: Facts) -> Iterator[Violation]:
    """On one connection neither log start nor high watermark moves back."""
    last: dict[tuple[object, ...], tuple[int, int]] = {}
    for event, table in facts.finished("poll"):
        if "link" not in table:
            continue
        where = (event.process, table["link"], table["key"])
        start, mark = last.get(where, (0, 0))
        now = (table.get("start", 0), table.get("hw", 0))
        if now[0] < start and not facts.may_begin_at(table["key"], now[0], event.index):
            text = f"key {table['key']}: log start {start}, then {now[0]}"
            yield Violation("log start fell", text, (event.index,))
        if now[1] < mark:
            text = f"key {table['key']}: high watermark {mark}, then {now[1]}"
            yield Violation("high watermark fell", text, (event.index,))
        last[where] = now


def ends(facts: Facts) -> Iterator[Violation]:
    """An end offset is above every offset that was acknowledged or read before the request."""
    known = _Highest(-1)
    for each in facts.events:
        if each.type == "ok" and each.value is not None and "key" in each.value:
            known.add(each.value["key"], each.index, _reached(each))
    for event, table in facts.finished("end"):
        key = table["key"]
        reached = known.before(key, event.of)
        if table["offset"] <= reached:
            text = f"key {key} was said to end at {table['offset']}, with {reached} known before"
            yield Violation("stale end", text, (event.index,))


def _reached(event: Event) -> int:
    table = value_of(event)
    match event.f:
        case "send" if table["offset"] >= 0:
            return int(table["offset"]) + len(table["values"]) - 1
        case "poll":
            last = int(table["records"][-1][0]) if table["records"] else -1
            return max(last, int(table.get("hw", 0)) - 1)
        case "end":
            return int(table["offset"]) - 1
        case _:
            return -1


def log_starts_moved(facts: Facts) -> Iterator[Violation]:
    """A log start never moves back, and rises only as far as a client asked for."""
    known, asked = _Highest(0), _Highest(0)
    for event in facts.events:
        if event.f == "trim" and event.type == "invoke":
            asked.add(value_of(event)["key"], event.index, value_of(event)["before"])
        elif event.f == "lost":
            asked.add(value_of(event)["key"], event.index, value_of(event)["start"])
    told = list(log_starts(facts))
    for event, key, start in told:
        known.add(key, event.index, start)
    for event, key, start in told:
        highest = known.before(key, event.of)
        has_fallen = start < highest and not facts.may_begin_at(key, start, event.index)
        if event.f != "poll" and has_fallen:
            text = f"key {key} begins at {start}, and began at {highest} before"
            yield Violation("log start fell", text, (event.index,))
        yield from _too_high(
            facts, event, key, (max(asked.before(key, event.index), facts.first[key]), start)
        )


def beginnings(facts: Facts) -> Iterator[Violation]:
    """No answer names an offset below the first offset of its key."""
    for event in facts.events:
        table = event.value or {}
        first = facts.first.get(table.get("key", -1), 0)
        told = _told(event) if first and event.type == "ok" else ()
        if any(0 <= each < first for each in told):
            text = f"key {table['key']} begins at {first}, and {event.f} told of {min(told)}"
            yield Violation("below the beginning", text, (event.index,))


def _told(event: Event) -> list[int]:
    """Return all offsets that an answer names."""
    table = value_of(event)
    match event.f:
        case "poll":
            more = [table[each] for each in ("next", "start", "hw") if each in table]
            return [*(offset for offset, _ in table["records"]), *more]
        case "send" | "low" | "end" | "seek":
            return [table["offset"]]
        case "trim":
            return [table["low"]]
        case _:
            return []


class _Highest:
    """The highest number of a key up to a moment.  Moments are added in order."""

    def __init__(self, nothing: int) -> None:
        self._nothing = nothing
        self._indexes: defaultdict[int, list[int]] = defaultdict(list)
        self._highest: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, key: int, index: int, number: int) -> None:
        """Record a number."""
        highest = self._highest[key]
        self._indexes[key].append(index)
        highest.append(max(number, highest[-1] if highest else self._nothing))

    def before(self, key: int, index: int) -> int:
        """Return the highest number recorded for a moment before this one."""
        at = bisect_left(self._indexes[key], index)
        return self._highest[key][at - 1] if at else self._nothing


def _too_high(facts: Facts, event: Event, key: int, taken: tuple[int, int]) -> Iterator[Violation]:
    asked, start = taken
    if start <= asked:
        return
    if key not in facts.retention:
        text = f"key {key} begins at {start}, but nothing from {asked} on was deleted"
        yield Violation("log start too high", text, (event.index,))
        return
    limit_ms, limit_bytes = facts.retention[key]
    if limit_bytes < 0:
        yield from _too_young(facts, event, key, taken, limit_ms)


def _too_young(
    facts: Facts, event: Event, key: int, taken: tuple[int, int], limit_ms: int
) -> Iterator[Violation]:
    now_ms = event.time_ns / 1e6
    for value, sent in facts.sent.items():
        ts = value_of(sent.invoke).get("ts")
        is_taken = sent.key == key and taken[0] <= sent.acked_offset < taken[1]
        is_taken = is_taken and not facts.is_lost(key, sent.acked_offset, event.index)
        if is_taken and ts is not None and now_ms - ts < limit_ms - CLOCK_MS:
            text = f"value {value} of key {key} went when {now_ms - ts:.0f} of {limit_ms} ms old"
            yield Violation("retained too short", text, (event.index,))


def seeks(facts: Facts) -> Iterator[Violation]:
    """A search by time finds the first record of that time or later."""
    for event, table in facts.finished("seek"):
        key, found, ts = table["key"], table["offset"], table["ts"]
        for value, sent in facts.sent.items():
            stamp, offset = value_of(sent.invoke).get("ts"), sent.acked_offset
            if sent.key != key or stamp is None or sent.outcome is None or offset < 0:
                continue
            is_old = sent.outcome.index < event.of and offset >= facts.trimmed[key]
            is_old = is_old and not facts.is_lost(key, offset, event.index)
            is_missed = stamp >= ts and is_old and (found < 0 or found > offset)
            is_missed = is_missed and not facts.may_be_compacted(value, offset)
            if is_missed or (offset == found and stamp < ts):
                text = f"{ts} in key {key}: {found}; value {value} of {stamp} stands at {offset}"
                yield Violation("wrong time search", text, (event.index,))


def deleted_reads(facts: Facts) -> Iterator[Violation]:
    """Once a topic is deleted, no client reads from it, and no client writes to it."""
    for event in facts.events:
        if event.f not in ("poll", "send") or event.type != "ok":
            continue
        key = value_of(event)["key"]
        if facts.gone.get(key, event.of) < event.of:
            kind = "deleted data read" if event.f == "poll" else "deleted topic written"
            yield Violation(kind, f"key {key}, by {event.process}", (event.index,))


def false_errors(facts: Facts) -> Iterator[Violation]:
    """A topic that no client deletes is never unknown, and no client gets an unexpected error."""
    for event in facts.events:
        if event.f not in ("poll", "send") or event.type not in ("fail", "info"):
            continue
        table = value_of(event)
        error = table.get("error")
        unknown = error in _UNKNOWN and not _may_be_unknown(facts, event)
        if unknown or error == "UNKNOWN_SERVER_ERROR":
            text = f"{event.f} of key {table['key']} by {event.process}: {error}"
            yield Violation("false error", text, (event.index,))


def _may_be_unknown(facts: Facts, event: Event) -> bool:
    """Return whether a client may have deleted the topic, or a former one of its name.

    If a record is sent by name, a stale gateway may send it to the former topic.
    """
    key = value_of(event)["key"]
    keys = [key]
    if value_of(event).get("by_name") and key in facts.topics:
        keys = [other for other, topic in facts.topics.items() if topic == facts.topics[key]]
    return any(facts.dropped.get(each, event.index) < event.index for each in keys)
