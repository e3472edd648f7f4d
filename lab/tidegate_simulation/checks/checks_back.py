"""Final readers read what a repair brought back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .facts import Facts, Sent, Violation, value_of


def brought_back(facts: Facts) -> Iterator[Violation]:
    """Each final reader sees the acknowledged records that are back."""
    if not facts.back:
        return
    wanted = _wanted(facts)
    read = _read(facts)
    for event, table in facts.finished("drained"):
        if table.get("committed"):
            continue
        for value, sent in wanted[table["key"]]:
            if sent.acked_offset not in read[event.process, table["key"]]:
                text = (
                    f"{event.process} did not read value {value} of key {sent.key}, which is back"
                )
                yield Violation("not brought back", text, (event.index,))


def _wanted(facts: Facts) -> dict[int, list[tuple[int, Sent]]]:
    deleted = _deleted(facts)
    wanted = defaultdict[int, list[tuple[int, Sent]]](list)
    for value, sent in facts.sent.items():
        key, offset = sent.key, sent.acked_offset
        is_left = key not in facts.dropped and key not in facts.retention
        is_left = is_left and offset >= deleted[key] and not facts.may_be_compacted(value, offset)
        if sent.acked and is_left and _is_back(facts, key, offset):
            wanted[key].append((value, sent))
    return wanted


def _deleted(facts: Facts) -> dict[int, int]:
    """Return, by key, the highest offset up to which a client has asked for a deletion."""
    deleted = defaultdict[int, int](int)
    for event in facts.events:
        if event.f == "trim" and event.type in ("invoke", "ok"):
            table = value_of(event)
            before = max(table["before"], table.get("low", 0))
            deleted[table["key"]] = max(deleted[table["key"]], before)
    return deleted


def _is_back(facts: Facts, key: int, offset: int) -> bool:
    """Return whether a record that was lost is back, and was not lost again."""
    back = [each.index for each in facts.back[key] if each.base <= offset < each.next]
    lost = [each.index for each in facts.lost[key] if each.base <= offset < each.next]
    return bool(back) and max(back) > max(lost, default=-1)


def _read(facts: Facts) -> dict[tuple[str, int], set[int]]:
    """Return the offsets that each client has read, by its name and the key."""
    read = defaultdict[tuple[str, int], set[int]](set)
    for event, table in facts.finished("poll"):
        offsets = (offset for offset, _ in table["records"])
        read[event.process, table["key"]].update(offsets)
    return read
