"""A metadata log full of slices, as a busy cluster leaves it: entries with real events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST

PARTITIONS: Final = 1_000
SLICE_BYTES: Final = 16_384
RECORDS: Final = 16
SLICES_AN_OBJECT: Final = 250
OBJECTS_AN_ENTRY: Final = 20
START_MS: Final = 1_700_000_000_000
_NONCE: Final = bytes(12)


def entries(slices: int) -> Iterator[bytes]:
    """Yield the entries from position 1 on: a cluster, a gateway, a topic, and then objects."""
    beginning = (
        ev.ClusterCreated("c" * 22, timeline=1),
        ev.MetadataVersionSet(NEWEST),
        ev.GatewayRegistered(1, 1, "key", "zone", (), "0", 0, highest_version=NEWEST),
        ev.TopicCreated(b"t" * 16, "slices", PARTITIONS, 1, {}),
    )
    yield encode_entry(_NONCE, 0, START_MS, encode_events(beginning))
    next_offsets = [0] * PARTITIONS
    objects = range(slices // SLICES_AN_OBJECT)
    for position, first in enumerate(objects[::OBJECTS_AN_ENTRY], start=2):
        committed = [
            _committed(counter, next_offsets)
            for counter in objects[first : first + OBJECTS_AN_ENTRY]
        ]
        events = encode_events(committed)
        entry_format = LEVELS[NEWEST].entry_format
        yield encode_entry(
            _NONCE, 1, START_MS + first, events, entry_format=entry_format, position=position
        )


def _committed(counter: int, next_offsets: list[int]) -> ev.WalCommitted:
    runs: list[ev.Run] = []
    for place in range(SLICES_AN_OBJECT):
        number = (counter * SLICES_AN_OBJECT + place) % PARTITIONS
        offset = next_offsets[number]
        stamp, check = START_MS + counter, counter * 1_000_003 % 2**32
        runs.append(
            ev.Run(number, place * SLICE_BYTES, SLICE_BYTES, offset, RECORDS, stamp, check, 0)
        )
        next_offsets[number] += RECORDS
    return ev.WalCommitted(1, counter, SLICES_AN_OBJECT * SLICE_BYTES, tuple(runs), ())
