"""Reads the sums that gateways wrote into the object store."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from tidegate_storage.objects.keys import cost_prefix, parse_cost_key
from tidegate_storage.objects.ownership import newest_timeline, read_owner
from tidegate_storage.stores.object_store import NoSuchObject, ObjectStore, StoreMisconfigured

from .sums import BadSums, CostSums, decode, hour_of, merged

_CONCURRENT_READS = 16


@dataclass(slots=True)
class Found:
    """The sums of a span.  node_ids: of the gateways that wrote them.  unread: keys of objects that
    cannot be read.
    """

    sums: CostSums
    node_ids: list[int]
    objects: int
    unread: list[str]


async def read_sums(store: ObjectStore, since_ms: int) -> Found:
    """Return the sums of all intervals that ended since a time: a GET for each.

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
    wanted = {key: sums for key, sums in sorted(found.items()) if sums.end_ms >= since_ms}
    nodes = {parse_cost_key(key).node_id for key in wanted}
    return Found(merged(wanted.values()), sorted(nodes), len(wanted), sorted(unread))
