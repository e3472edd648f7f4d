"""A gateway that reads for its zone serves its own clients, however slow the store is."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.zone_world import MIB, zone_world
from tests.worlds.fetch_world import Store, records_of
from tests.zones.test_zone_reads import write_segments
from tidegate_storage.stores.object_store import StoreUnavailable


class Narrow(Store):
    """A store that is slow in proportion to the requested bytes.  is_broken: large ranges fail."""

    is_broken = False

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await trio.sleep(length / (MIB / 2))
        if self.is_broken and length > 2 * MIB:
            raise StoreUnavailable("too much")
        return await super().get_range(key, start, length)


@pytest.mark.parametrize("zone_names", [["a", "b"], ["a", "a"]])
async def test_a_slow_store_serves_the_owner_of_a_zone_read(
    zone_names: list[str], autojump_clock: MockClock
) -> None:
    async with zone_world(zone_names, store=Narrow()) as zones:
        names = await write_segments(zones, 2, 12)
        reader = zones.worlds[1]
        before = trio.current_time()
        for name in names:
            assert records_of(await reader.fetch(name, 0, partition_max=MIB))
        assert trio.current_time() - before < 20.0


@pytest.mark.parametrize("zone_names", [["a", "b"], ["a", "a"]])
async def test_a_store_that_gives_no_whole_object_is_asked_for_ranges(
    zone_names: list[str], autojump_clock: MockClock
) -> None:
    store = Narrow()
    async with zone_world(zone_names, store=store) as zones:
        names = await write_segments(zones, 2, 12)
        store.is_broken = True
        for name in names:
            data = await zones.worlds[1].fetch(name, 0, partition_max=MIB)
            assert (data.error_code, records_of(data)[0][0]) == (0, 0)
