"""Groups of Apache Kafka move to a gateway with their offsets, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

TOPIC: Final = "orders"
PARTITIONS: Final = 3
_SECONDS: Final = 30.0


def committed(bootstrap: str, group: str) -> list[str]:
    """Return the offsets that a group has committed, with their metadata."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        places = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        found = consumer.committed(places, timeout=_SECONDS)
        return [f"{each.topic}-{each.partition} {each.offset} {each.metadata}" for each in found]
    finally:
        consumer.close()


def wrong_moves(source: str, gateway: str, move: Callable[[Sequence[str]], Any]) -> Iterator[str]:
    """Move a group without members, and a group with a member; yield the problems.

    move: runs `tidegate link move-groups`, and returns its output.
    """
    places = [TopicPartition(TOPIC, at, 5 + at, f"at {at}") for at in range(PARTITIONS)]
    resting = Consumer({"bootstrap.servers": source, "group.id": "resting"})
    resting.commit(offsets=places, asynchronous=False)
    resting.close()
    busy = Consumer({"bootstrap.servers": source, "group.id": "busy"})
    busy.subscribe([TOPIC])
    while not busy.assignment():
        busy.poll(0.2)
    told = {each["group"]: each["problem"] for each in move(("resting", "busy", "none"))}
    busy.close()
    expected = {"resting": "", "busy": "stop its members", "none": "no such group"}
    yield from (
        f"{group}: {told[group]}"
        for group, text in expected.items()
        if text not in told[group] or bool(text) != bool(told[group])
    )
    theirs, own = committed(source, "resting"), committed(gateway, "resting")
    if theirs != own:
        yield f"offsets {own} are here, and {theirs} there"
    again = move(("resting",))
    if "--replace" not in again[0]["problem"]:
        yield f"move-groups again: {again}"
