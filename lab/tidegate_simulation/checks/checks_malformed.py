"""Checks of malformed batches: none is taken or read, and no sound batch is called malformed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .facts import Facts, Violation, value_of
from .history import Event

# Errors of requests that a gateway does not take now; they say nothing about records.
_NOT_NOW: Final = frozenset({"NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"})
_OF_RECORDS: Final = frozenset({"INVALID_RECORD", "CORRUPT_MESSAGE"})


def malformed(facts: Facts) -> Iterator[Violation]:
    """A malformed batch gets Kafka's error, which names its records; a sound one never gets it."""
    for event in facts.events:
        if event.f != "send" or event.type == "invoke":
            continue
        table = value_of(event)
        if "malformed" in table:
            yield from _answered(event, table)
        elif table.get("error") in _OF_RECORDS:
            text = f"a sound batch of {event.process} was refused: {table['error']}"
            yield Violation("sound batch refused", text, (event.index,))
    yield from _read(facts)


def _answered(event: Event, table: dict[str, Any]) -> Iterator[Violation]:
    kind, error = table["malformed"], table.get("error")
    if event.type == "ok":
        text = f"a batch with {kind} was acknowledged"
        yield Violation("malformed batch taken", text, (event.index,))
    elif event.type == "fail" and error not in _NOT_NOW:
        if error != table["due"]:
            text = f"a batch with {kind} got {error}, not {table['due']}"
            yield Violation("wrong refusal", text, (event.index,))
        elif table["were_named"] != table.get("named", table["were_named"]):
            text = f"of a batch with {kind} the records {table['were_named']} were named"
            yield Violation("wrong refusal", f"{text}, not {table['named']}", (event.index,))


def _read(facts: Facts) -> Iterator[Violation]:
    for key, values in facts.seen.items():
        for value, places in values.items():
            sent = facts.sent.get(value)
            kind = value_of(sent.invoke).get("malformed") if sent is not None else None
            if kind is not None:
                text = f"value {value} of a batch with {kind} was read from key {key}"
                yield Violation("malformed batch read", text, tuple(places.values()))
