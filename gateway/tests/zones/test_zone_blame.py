"""A lender is blamed for damage only if its bytes differ from the store's."""

from __future__ import annotations

import pytest
import trio

from tests.worlds.cluster.zone_world import Zones, zone_world
from tests.worlds.fetch_world import World, batch, records_of
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.fetch.lending.zone_reads import ASK_SECONDS, MAX_DOUBTS
from tidegate_protocol.error_codes import ErrorCode

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def one_corrupt_run(zones: Zones) -> World:
    """Store an object with a good run and one that is corrupt in the store; return a reader.

    No gateway has the object in memory.
    """
    writer, reader = zones.worlds
    writer.adopts = False
    for name in ("bad", "good"):
        await writer.create(name, 1)
    await writer.write(("bad", 0, batch("x")), ("good", 0, batch("y")))
    await zones.catch_up()
    [key] = [each.key for each in await zones.store.list("")]
    row = writer.partition("bad").runs[0]
    zones.store.damage(key, row.position + row.length - 2)
    zones.store.reads.clear()
    return reader


@pytest.mark.parametrize("zone_names", [["a", "b"], ["a", "a"]])
async def test_no_gateway_is_blamed_for_an_object_that_is_corrupt_in_the_store(
    zone_names: list[str],
) -> None:
    async with zone_world(zone_names) as zones:
        reader = await one_corrupt_run(zones)
        for _ in range(3):
            assert (await reader.fetch("bad", 0)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert reader.zone_reads is not None
        assert reader.zone_reads.counters.damaged == 0
        assert reader.zone_reads._suspects._failures == {}
        assert not any(reader.zone_reads._doubts.values())
        assert sum(each.lender.counters.gets for each in zones.worlds) == 1
        assert records_of(await reader.fetch("good", 0)) == [(0, "y")]
        assert sum(each.lender.counters.gets for each in zones.worlds) == 1


async def test_many_doubts_are_settled_within_the_patience_of_one() -> None:
    async with zone_world(["a", "a"]) as zones:
        writer, reader = zones.worlds
        await writer.create("t", 1)
        await writer.write(("t", 0, batch("x")))
        await zones.catch_up()
        assert reader.zone_reads is not None
        [info] = await zones.store.list("")
        ask = ObjectAsk(info.key, 0, 1, info.size_bytes)
        for _ in range(MAX_DOUBTS):
            reader.zone_reads.doubt(ask, writer.coordinator.incarnation)
        await trio.sleep(2.1)  # the lender is avoided for a while
        zones.network.seconds = 0.25
        before = trio.current_time()
        assert records_of(await reader.fetch("t", 0)) == [(0, "x")]
        assert trio.current_time() - before < 2 * ASK_SECONDS
