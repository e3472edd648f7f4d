"""Reads the sums that gateways and pipelines wrote into the object store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from tidegate_storage.objects.cost_sums import PIPELINE, BadSums, CostSums, decode, hour_of
from tidegate_storage.objects.keys import cost_prefix
from tidegate_storage.objects.ownership import newest_timeline, read_owner
from tidegate_storage.stores.object_store import NoSuchObject, ObjectStore, StoreMisconfigured

_CONCURRENT_READS: Final = 16
_RECENT_MS: Final = 2 * 3_600_000


@dataclass(slots=True)
class Found:
    """The sums of each interval of a span, the oldest first.

    unread: keys of objects that cannot be read.
    """

    each: list[CostSums]
    unread: list[str]

    def recent(self) -> list[CostSums]:
        """Return each gateway's last sums, without gateways that ended long before the others."""
        last = {sums.node_id: sums for sums in self.each if sums.node_id != PIPELINE}
        newest = max((sums.end_ms for sums in last.values()), default=0)
        return [sums for sums in last.values() if sums.end_ms >= newest - _RECENT_MS]


async def read_sums(store: ObjectStore, since_ms: int) -> Found:
    """Return the sums of all intervals that ended since a time; each takes a GET.

    Raises:
      StoreMisconfigured: no cluster owns this prefix.
      StoreUnavailable: try again later.
    """
    owner = await read_owner(store)
    if owner is None:
        raise StoreMisconfigured(
            "no cluster keeps its records there; give --object-store as the gateways'"
            " object.store, with its prefix"
        )
    keys: list[str] = []
    for timeline in range(1, await newest_timeline(store, owner) + 1):
        prefix = cost_prefix(owner.cluster_id, timeline)
        after = f"{prefix}{hour_of(since_ms / 1000):010}"
        while page := await store.list(prefix, start_after=after):
            after = page[-1].key
            keys += [each.key for each in page]
    return await _read_all(store, keys, since_ms)


async def _read_all(store: ObjectStore, keys: list[str], since_ms: int) -> Found:
    found: dict[str, CostSums] = {}
    unread: list[str] = []
    limiter = trio.CapacityLimiter(_CONCURRENT_READS)

    async def read(key: str) -> None:
        async with limiter:
            try:
                found[key] = decode(await store.get(key))
            except (BadSums, NoSuchObject):
                unread.append(key)

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(read, key)
    in_order = [found[key] for key in sorted(found, key=lambda key: found[key].end_ms)]
    return Found([sums for sums in in_order if sums.end_ms >= since_ms], sorted(unread))
