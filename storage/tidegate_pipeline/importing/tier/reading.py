"""Reads units out of tiered storage."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate_coordination.existing import open_existing_store
from tidegate_storage.stores.object_store import NoSuchObject, ObjectStore

from ..log_folders import Place
from ..readers import Portion, Reader, SourceFailed
from ..work import ImportUnit
from .chunks import Secret
from .manifests import MANIFEST, BadTier, read_manifest
from .segment_reading import SegmentReading


class KnownSegment(NamedTuple):
    """A segment, used for the offsets from start to the start of the next segment; see Segment."""

    start: int
    stop: int
    key: str
    secret: Secret | None


@dataclass(frozen=True)
class TierOrigin:
    """See Origin.  segments: the segments of each partition, in order and without holes."""

    url: str
    segments: Mapping[Place, Sequence[KnownSegment]] = field(repr=False)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Reader, None]:
        """See Origin."""
        store = open_existing_store(self.url)
        try:
            yield TierReader(store, self.segments)
        finally:
            await store.aclose()


class TierReader:
    """See Reader.

    The reader keeps one segment open, because units are read in the order of offsets.
    """

    def __init__(
        self, store: ObjectStore, segments: Mapping[Place, Sequence[KnownSegment]]
    ) -> None:
        self._store = store
        self._segments = segments
        self._open: tuple[str, SegmentReading] | None = None

    async def read(self, unit: ImportUnit, position: int, epoch: int) -> Portion:
        """See Reader."""
        segments = self._segments[unit.topic, unit.partition]
        at = bisect_right(segments, position, key=lambda each: each.start) - 1
        try:
            for each in segments[max(at, 0) :]:
                data = await (await self._opened(each)).portion(position)
                if data:
                    return Portion(data)
        except BadTier as error:
            raise SourceFailed(str(error)) from None
        except NoSuchObject as error:
            raise SourceFailed(f"{error} is gone from tiered storage") from None
        return Portion(memoryview(b""))

    async def _opened(self, segment: KnownSegment) -> SegmentReading:
        if self._open is None or self._open[0] != segment.key:
            name = segment.key + MANIFEST
            manifest = read_manifest(await self._store.get(name), name)
            reading = SegmentReading(self._store, segment.key, manifest, segment.secret)
            self._open = segment.key, reading
        return self._open[1]
