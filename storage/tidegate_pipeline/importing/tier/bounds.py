"""Which segments of topics tiered storage holds; where the partitions begin and end there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import trio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tidegate_coordination.state.topics import Topic
from tidegate_storage.stores.object_store import NoSuchObject, ObjectStore

from ..log_folders import Place
from .chunks import Secret, unwrapped
from .manifests import (
    MANIFEST,
    Segment,
    folder_of,
    lineage,
    manifest_names,
    read_manifest,
)
from .reading import KnownSegment

READS_AT_ONCE: Final = 16


async def known_segments(
    store: ObjectStore,
    prefix: str,
    topics: Iterable[Topic],
    keys: Mapping[str, RSAPrivateKey],
) -> dict[Place, list[KnownSegment]]:
    """Return the segments of each partition that has some, in order and without holes.

    keys: private keys by id, which unwrap the keys of segments.

    Raises:
      BadTier: a manifest cannot be read, or a key is missing.
      StoreUnavailable, StoreMisconfigured: the store does not answer.
    """
    found: dict[Place, list[KnownSegment]] = {}
    for topic in topics:
        for index in range(len(topic.partition_numbers)):
            folder = folder_of(prefix, topic.name, topic.shown_id, index)
            segments = lineage(await _segments(store, folder))
            if segments:
                found[topic.name, index] = [_known(each, keys) for each in segments]
    return found


def _known(segment: Segment, keys: Mapping[str, RSAPrivateKey]) -> KnownSegment:
    manifest = segment.manifest
    secret = Secret(unwrapped(manifest.data_key, keys), manifest.aad) if manifest.data_key else None
    return KnownSegment(manifest.start, manifest.stop, segment.key, secret)


async def _segments(store: ObjectStore, folder: str) -> list[Segment]:
    found: list[Segment] = []
    slots = trio.Semaphore(READS_AT_ONCE)

    async def read(key: str) -> None:
        async with slots:
            name = key + MANIFEST
            try:
                found.append(Segment(key, read_manifest(await store.get(name), name)))
            except NoSuchObject:
                return  # the source's retention removes segments

    async with trio.open_nursery() as nursery:
        for key in manifest_names(folder, await _keys(store, folder)):
            nursery.start_soon(read, key)
    return found


async def _keys(store: ObjectStore, folder: str) -> list[str]:
    keys: list[str] = []
    while page := await store.list(folder, start_after=keys[-1] if keys else ""):
        keys += [each.key for each in page]
    return keys


class TierBounds:
    """See SourceSide."""

    def __init__(self, segments: Mapping[Place, Sequence[KnownSegment]]) -> None:
        self._segments = segments

    async def bounds(self, topics: Sequence[Topic]) -> Mapping[Place, tuple[int, int] | str]:
        """See SourceSide.  A partition that has no segment yet has nothing to import."""
        places = [
            (each.name, index) for each in topics for index in range(len(each.partition_numbers))
        ]
        return {place: self._bounds(place) for place in places}

    def _bounds(self, place: Place) -> tuple[int, int]:
        segments = self._segments.get(place)
        return (segments[0].start, segments[-1].stop) if segments else (0, 0)

    def obstacle(self, topic: Topic, index: int, end: int) -> str:
        """See SourceSide."""
        segments = self._segments.get((topic.name, index))
        if not segments or not 0 < end < segments[0].start:
            return ""
        return (
            f"tiered storage begins at offset {segments[0].start}, and the copy ends at {end}:"
            " import from the brokers"
        )

    async def difference(self, topic: Topic, index: int, epoch_ends: Mapping[int, int]) -> str:
        """Return "": segments do not change."""
        return ""
