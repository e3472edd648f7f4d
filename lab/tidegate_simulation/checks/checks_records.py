"""Checks of single records: each acknowledged record is in the log once, at its offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .facts import Facts, Sent, Violation, value_of
from .history import Event

# Refusals of a correct idempotent producer that only loss or disorder can cause.
_NEVER_REFUSED = frozenset(
    {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"}
)


def offsets(facts: Facts) -> Iterator[Violation]:
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
    yield from _in_two_topics(facts)


def _wrong_acks(facts: Facts) -> Iterator[Violation]:
    for value, sent in facts.sent.items():
        offset = sent.acked_offset
        places = facts.seen[sent.key].get(value)
        if sent.outcome is None or not sent.acked:
            continue
        if offset >= 0 and places and offset not in places:
            text = f"value {value} was acknowledged at {offset} and stands at {sorted(places)}"
            yield Violation("inconsistent offset", text, (sent.outcome.index,))
        if offset < 0 and sent.producer is None:
            text = f"value {value} was sent once, and acknowledged like a repeated one"
            yield Violation("no offset", text, (sent.outcome.index,))


def _in_two_topics(facts: Facts) -> Iterator[Violation]:
    """A record sent by name is in the topic of that name, or in its successor.

    Both may have it if the client repeats a send whose outcome is unknown.  Only transactional
    clients do so.
    """
    keys: dict[int, list[int]] = defaultdict(list)
    for key, values in facts.seen.items():
        for value in values:
            sent = facts.sent.get(value)
            if sent is None or (not sent.acked and "txn" in value_of(sent.invoke)):
                continue
            if facts.may_stand_in(sent, key):
                keys[value].append(key)
    for value, where in keys.items():
        if len(where) > 1:
            yield Violation("duplicate", f"value {value} stands in the keys {where}")


def strangers(facts: Facts) -> Iterator[Violation]:
    """Values in a wrong place: never sent, sent to another key, or certainly not written."""
    for key, values in facts.seen.items():
        for value, places in values.items():
            where = tuple(places.values())
            sent = facts.sent.get(value)
            if sent is None:
                yield Violation("phantom", f"value {value} of key {key} was never sent", where)
            elif not facts.may_stand_in(sent, key):
                text = f"value {value} of key {sent.key} was read from key {key}"
                yield Violation("foreign record", text, where)
            elif min(where) < sent.invoke.index:
                yield Violation("phantom", f"value {value} was read before it was sent", where)
            elif sent.outcome is not None and sent.outcome.type == "fail":
                yield Violation("failed write", f"value {value} failed and was read", where)


def losses(facts: Facts) -> Iterator[Violation]:
    """Lost: acknowledged, and a final reader passed it.  Unseen: no final reader got that far."""
    passed = {table["key"]: event for event, table in facts.finished("drained")}
    for value, sent in facts.sent.items():
        if not sent.acked or value in facts.seen[sent.key] or facts.may_be_gone(value):
            continue
        assert sent.outcome is not None
        kind = "lost" if _is_passed(facts, sent, passed.get(sent.key)) else "unseen"
        text = f"value {value} of key {sent.key} was acknowledged and never read"
        yield Violation(kind, text, (sent.outcome.index,))


def _is_passed(facts: Facts, sent: Sent, end: Event | None) -> bool:
    highest = max(facts.at[sent.key], default=-1)
    return end is not None or -1 < sent.acked_offset < highest


def sends(facts: Facts) -> Iterator[Violation]:
    """Reordered: a later send of a producer to a key has no higher offset."""
    last: dict[object, tuple[int, int]] = {}
    for value, sent in facts.sent.items():
        offset = _offset_of(facts, value, sent)
        if offset is None or (sent.producer is None and not sent.acked):
            continue
        who = sent.producer or sent.invoke.process
        before, earlier = last.get((who, sent.key), (-1, -1))
        if offset <= before:
            text = (
                f"{who} sent {earlier} before {value} to key {sent.key};"
                f" they stand at {before} and {offset}"
            )
            yield Violation("reordered send", text, (sent.invoke.index,))
        last[who, sent.key] = (offset, value)


def _offset_of(facts: Facts, value: int, sent: Sent) -> int | None:
    places = facts.seen[sent.key].get(value)
    if places:
        return min(places)
    return sent.acked_offset if sent.acked_offset >= 0 else None


def refusals(facts: Facts) -> Iterator[Violation]:
    """An idempotent producer got an error that only a loss of its records explains.

    A refusal is right if the epoch of the producer id has been raised.
    """
    epochs: dict[tuple[int, int], int] = {}
    for event in facts.events:
        if event.f != "send" or not value_of(event)["producer"]:
            continue
        table = value_of(event)
        producer_id, epoch = table["producer"]
        who = (producer_id, table["key"])
        if event.type == "invoke":
            epochs[who] = max(epoch, epochs.get(who, 0))
        elif _is_wrong(table) and epoch == epochs[who]:
            text = f"{event.process}'s next batch was refused: {table['error']}"
            yield Violation("refused send", text, (event.index,))


def _is_wrong(table: dict[str, Any]) -> bool:
    """Return whether the producer must not get this error.

    In a transaction INVALID_PRODUCER_EPOCH is right: another client of the transactional id may
    raise the epoch at any time.
    """
    error = table.get("error")
    return error in _NEVER_REFUSED and not ("txn" in table and error == "INVALID_PRODUCER_EPOCH")


def zombies(facts: Facts) -> Iterator[Violation]:
    """No batch of an old epoch is written after a batch of a newer epoch of the producer."""
    written: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for event, table in facts.finished("send"):
        if table["producer"]:
            producer_id, epoch = table["producer"]
            written[producer_id, table["key"]].setdefault(epoch, event.index)
    for value, sent in facts.sent.items():
        if sent.producer is None or not (sent.acked or value in facts.seen[sent.key]):
            continue
        producer_id, epoch = sent.producer
        newer = [
            each
            for each, index in written[producer_id, sent.key].items()
            if each > epoch and index < sent.invoke.index
        ]
        if newer:
            text = f"value {value} has epoch {epoch} of producer {producer_id}, after {min(newer)}"
            yield Violation("zombie write", text, (sent.invoke.index,))
