"""A cluster of many slices, as the log of a busy cluster has them: entries with real events."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import encode_entry, encode_events

START_MS = 1_700_000_000_000
TOPIC = b"t" * 16
RUN_BYTES = 4096
RUN_RECORDS = 50
RUNS_AN_OBJECT = 250
OBJECTS_AN_ENTRY = 64


def beginning(partitions: int) -> bytes:
    """The entry that makes cluster, gateway 1 and a topic."""
    events = (
        ev.ClusterCreated("c" * 22, timeline=1),
        ev.GatewayRegistered(1, 1, "key", "zone", (), "0", supersedes=0),
        ev.TopicCreated(TOPIC, "slices", partitions, 1, {}),
    )
    return encode_entry(bytes(12), 0, START_MS, encode_events(events))


def slice_entries(slices: int, partitions: int) -> Iterator[bytes]:
    """Entries of objects, each with a run in RUNS_AN_OBJECT of the partitions, in turn."""
    next_offsets = [0] * partitions
    objects = range(slices // RUNS_AN_OBJECT)
    for first in objects[::OBJECTS_AN_ENTRY]:
        counters = objects[first : first + OBJECTS_AN_ENTRY]
        events = [_committed(counter, next_offsets) for counter in counters]
        yield encode_entry(bytes(12), 1, START_MS + first, encode_events(events))


def _committed(counter: int, next_offsets: list[int]) -> ev.WalCommitted:
    runs: list[ev.Run] = []
    for place in range(RUNS_AN_OBJECT):
        number = (counter * RUNS_AN_OBJECT + place) % len(next_offsets)
        offset = next_offsets[number]
        stamp, check = START_MS + counter, counter * 1_000_003 % 2**32
        runs.append(
            ev.Run(number, place * RUN_BYTES, RUN_BYTES, offset, RUN_RECORDS, stamp, check, 0)
        )
        next_offsets[number] += RUN_RECORDS
    return ev.WalCommitted(1, counter, RUNS_AN_OBJECT * RUN_BYTES, tuple(runs), ())
