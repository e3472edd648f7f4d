"""The parts that read objects, and the limits on the memory of reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.range_cache import RangeCache

from ..feature import Feature, Ground, Task
from ..fetch.fetch_plan import FetchSettings
from ..fetch.lending.object_lender import ObjectLender
from ..fetch.lending.zone_reads import ZoneReads
from ..fetch.log_reader import LogReader
from ..fetch.metrics import disk_cache_metrics, read_metrics
from ..fetch.read_ahead import MAX_BYTES as READ_AHEAD_BYTES
from ..fetch.read_ahead import ReadAhead
from ..network.reply_memory import ReplyMemory, reply_memory
from ..store_way.store_way import StoreWay
from ..zones.zone_settings import ZoneMaps


@dataclass(frozen=True, slots=True)
class ReadParts:
    """lender, zone_reads: None if gateways do not read for each other."""

    store_way: StoreWay
    cache: RangeCache[object]
    reply_memory: ReplyMemory
    lender: ObjectLender | None
    zone_reads: ZoneReads | None
    reader: LogReader
    read_ahead: ReadAhead
    feature: Feature


def read_parts(ground: Ground, zone_maps: ZoneMaps, disk_cache: DiskCache | None) -> ReadParts:
    """Make the parts."""
    settings, store, way = ground.settings, ground.environment.store, StoreWay()
    cache: RangeCache[object] = RangeCache(settings.int("fetch.cache.bytes"))
    lender = None
    if settings.text("zone.reads") == "on":
        lender = ObjectLender(store, cache)
    zone_reads = _zone_reads(ground, zone_maps, lender)
    reader = LogReader(
        ground.coordinator,
        store,
        cache,
        settings=FetchSettings(max_bytes=settings.int("fetch.max.bytes")),
        disk=disk_cache,
        max_open_files=ground.environment.max_open_files,
        zone=zone_reads,
        way=way,
    )
    read_ahead = ReadAhead(
        reader,
        max_bytes=min(READ_AHEAD_BYTES, cache.max_bytes // 4),
        room_bytes=cache.max_bytes // 2,
        upkeep=ground.upkeep,
    )
    memory = reply_memory(cache.max_bytes)
    feature = Feature(
        "reads",
        tasks=(Task("read ahead", read_ahead.run),),
        metrics=partial(read_metrics, reader, lender, cache, memory),
    )
    return ReadParts(way, cache, memory, lender, zone_reads, reader, read_ahead, feature)


def disk_cache_feature(cache: DiskCache | None) -> Feature:
    """Return the feature of the disk cache; without one it has nothing to do."""
    if cache is None:
        return Feature("disk cache")
    return Feature(
        "disk cache",
        tasks=(Task("write to the disk cache", cache.run),),
        metrics=partial(disk_cache_metrics, cache),
    )


def _zone_reads(
    ground: Ground, zone_maps: ZoneMaps, lender: ObjectLender | None
) -> ZoneReads | None:
    peers = ground.environment.peers
    if lender is None or peers is None:
        return None
    return ZoneReads(
        ground.coordinator, ground.identity.zone, lender, peers, zone_id_of=zone_maps.id_of
    )
