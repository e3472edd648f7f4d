"""Gateways of a zone read each object once for the zone, but never depend on each other."""

from __future__ import annotations

from random import Random

import trio
from trio.testing import MockClock

from tests.fetch.test_fetch_gets import MERGE, next_offset
from tests.fetch.test_fetch_segments import merge
from tests.worlds.cluster.zone_world import MIB, TOKEN, Zones, zone_world
from tests.worlds.fetch_world import World, batch, records_of
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk, target_of
from tidegate_gateway.fetch.lending.object_owners import ObjectOwners
from tidegate_gateway.zones.placement import recommend
from tidegate_protocol.error_codes import ErrorCode
from tidegate_runtime.http.values import HttpRequest

HALF = "x" * (MIB // 2)


async def write_segments(zones: Zones, count: int, mebibytes: int) -> list[str]:
    """Make topics of one segment each, which no gateway has in memory."""
    writer = zones.worlds[0]
    names = [f"t{number}" for number in range(count)]
    writer.adopts = False
    for name in names:
        await writer.create(name, 1)
        for number in range(2 * mebibytes):
            await writer.write((name, 0, batch(f"{number}{HALF}")))
    await merge(writer, MERGE)
    await zones.catch_up()
    zones.store.reads.clear()
    return names


async def read_through(world: World, name: str) -> None:
    offset, end = 0, world.partition(name).next_offset
    while offset < end:
        offset = next_offset(await world.fetch(name, offset, partition_max=MIB), offset)
        await trio.sleep(0.001)


async def read_by_fifty(zones: Zones, names: list[str]) -> None:
    random = Random(1)

    async def consumer(number: int) -> None:
        await trio.sleep(random.random() * 0.5)
        await read_through(zones.worlds[number % 3], names[number % len(names)])

    async with trio.open_nursery() as readers:
        for number in range(50):
            readers.start_soon(consumer, number)


async def test_fifty_consumers_at_three_gateways_cost_one_get_an_object(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "a", "a"]) as zones:
        names = await write_segments(zones, 4, 12)
        zones.store.seconds = 0.05
        await read_by_fifty(zones, names)
        assert set(zones.gets.values()) == {1}
        assert len(zones.gets) == 4
        damaged = [each.zone_reads.counters.damaged for each in zones.worlds if each.zone_reads]
        assert damaged == [0, 0, 0]


async def test_a_segment_is_read_by_whom_the_zones_clients_are_sent_to(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "a", "a", "b"]) as zones:
        names = await write_segments(zones, 6, 1)
        zones.store.seconds = 0.05
        for name in names:
            topic = zones.worlds[0].state.topics.by_name[name]
            [reader] = recommend(topic.topic_id, 1, [1, 2, 3])
            await read_through(zones.worlds[reader - 1], name)
        assert not zones.network.statuses
        assert set(zones.gets.values()) == {1}
        for name in names:
            for world in zones.worlds[:3]:
                await read_through(world, name)
        assert sum(zones.network.statuses.values()) > 0
        assert set(zones.gets.values()) == {1}


async def test_a_large_segment_comes_in_blocks_each_once(autojump_clock: MockClock) -> None:
    async with zone_world(["a", "a", "a"]) as zones:
        names = await write_segments(zones, 1, 24)
        zones.store.seconds = 0.05
        await read_by_fifty(zones, names)
        assert list(zones.gets.values()) == [4]
        assert sum(length for _, _, length in zones.store.reads) < 25 * MIB


async def test_the_hot_tail_costs_its_own_zone_no_get_and_each_other_zone_one(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "a", "a", "b", "b", "b"]) as zones:
        writer = zones.worlds[0]
        await writer.create("t", 2)
        for number in range(5):
            await writer.write(("t", 0, batch(f"a{number}")), ("t", 1, batch(f"b{number}")))
        await zones.catch_up()
        for world in zones.worlds[:3]:
            for index, letter in enumerate("ab"):
                for offset in range(5):
                    data = await world.fetch("t", offset, partition=index)
                    assert records_of(data)[0] == (offset, f"{letter}{offset}")
        assert not zones.store.reads
        for world in zones.worlds[3:]:
            for index in range(2):
                for offset in range(5):
                    assert records_of(await world.fetch("t", offset, partition=index))
        assert set(zones.gets.values()) == {1}
        assert len(zones.gets) == 5


async def test_records_that_their_writer_stamped_anew_are_lent_as_they_are_stored() -> None:
    async with zone_world(["a", "a"]) as zones:
        writer, other = zones.worlds
        await writer.create("t", 1, message_timestamp_type="LogAppendTime")
        await writer.write(("t", 0, batch("x", timestamp=1)))
        await zones.catch_up()
        mine = await writer.fetch("t", 0)
        assert records_of(await other.fetch("t", 0)) == records_of(mine)
        assert other.zone_reads is not None
        assert (other.zone_reads.counters.hits, other.zone_reads.counters.damaged) == (1, 0)


async def cold_tail(zones: Zones) -> World:
    """Write a record that the first gateway has in memory; return a gateway that must ask."""
    writer, other = zones.worlds[:2]
    await writer.create("t", 1)
    await writer.write(("t", 0, batch("x")))
    await zones.catch_up()
    return other


def forget(world: World) -> None:
    world.cache.resize(0)
    world.cache.resize(64 * MIB)


async def test_a_gateway_that_is_down_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with zone_world(["a", "a"]) as zones:
        zones.network.down.add("node1")
        other = await cold_tail(zones)
        before = trio.current_time()
        assert records_of(await other.fetch("t", 0)) == [(0, "x")]
        assert trio.current_time() - before < 0.01
        assert len(zones.store.reads) == 1


async def test_a_gateway_that_is_silent_costs_a_third_of_a_second_once(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "a"]) as zones:
        zones.network.silent.add("node1")
        other = await cold_tail(zones)
        before = trio.current_time()
        assert records_of(await other.fetch("t", 0)) == [(0, "x")]
        assert 0.25 < trio.current_time() - before < 0.35
        await zones.worlds[0].write(("t", 0, batch("y")))
        await other.coordinator.catch_up()
        before = trio.current_time()
        assert records_of(await other.fetch("t", 1)) == [(1, "y")]
        assert trio.current_time() - before < 0.01
        zones.network.silent.clear()
        await trio.sleep(2.0)
        await zones.worlds[0].write(("t", 0, batch("z")))
        await other.coordinator.catch_up()
        zones.store.reads.clear()
        assert records_of(await other.fetch("t", 2)) == [(2, "z")]
        assert not zones.store.reads


async def test_a_gateway_that_just_answered_may_take_longer(autojump_clock: MockClock) -> None:
    async with zone_world(["a", "a"]) as zones:
        other = await cold_tail(zones)
        assert records_of(await other.fetch("t", 0)) == [(0, "x")]
        zones.network.seconds = 0.9
        for pause, expected in ((0.0, 0), (6.0, 1)):
            await trio.sleep(pause)
            offset = zones.worlds[0].partition("t").next_offset
            await zones.worlds[0].write(("t", 0, batch("y")))
            await other.coordinator.catch_up()
            assert records_of(await other.fetch("t", offset)) == [(offset, "y")]
            assert len(zones.store.reads) == expected


async def test_damaged_bytes_of_a_gateway_are_no_corrupt_object() -> None:
    for fault in ("lying", "short"):
        async with zone_world(["a", "a"]) as zones:
            getattr(zones.network, fault).add("node1")
            other = await cold_tail(zones)
            assert records_of(await other.fetch("t", 0)) == [(0, "x")]
            assert other.reader.verifier.corrupt_runs == 0
            assert other.zone_reads is not None
            assert other.zone_reads.counters.damaged == (fault == "lying")
            assert len(zones.store.reads) == 1


async def test_damaged_bytes_of_segments_are_read_again(autojump_clock: MockClock) -> None:
    async with zone_world(["a", "a", "a"]) as zones:
        names = await write_segments(zones, 3, 2)
        zones.network.lying.update({"node1", "node2", "node3"})
        await read_by_fifty(zones, names)
        assert [each.reader.verifier.corrupt_runs for each in zones.worlds] == [0, 0, 0]


async def one_damaged_block(zones: Zones) -> tuple[World, World, list[str]]:
    """Let the next read of a segment be damaged; return its owner, another gateway, the topics."""
    names = await write_segments(zones, 1, 1)
    topic = zones.worlds[0].state.topics.by_name[names[0]]
    [reader] = recommend(topic.topic_id, 1, [each.node_id for each in zones.worlds])
    zones.store.damaged_reads = 1
    others = [each for each in zones.worlds if each.node_id != reader]
    return zones.worlds[reader - 1], others[0], names


async def test_an_owner_reads_anew_what_came_damaged_to_it(autojump_clock: MockClock) -> None:
    async with zone_world(["a", "a", "a"]) as zones:
        owner, other, [name] = await one_damaged_block(zones)
        await read_through(other, name)
        assert other.zone_reads is not None
        assert other.zone_reads.counters.damaged == 1
        await trio.sleep(3.0)  # the owner is avoided for a while
        await write_more_and_read(zones, owner, other)
        assert zones.network.statuses[f"node{owner.node_id}", 204] == 1
        third = next(each for each in zones.worlds if each not in (owner, other))
        await read_through(third, name)
        assert third.zone_reads is not None
        assert (third.zone_reads.counters.damaged, owner.reader.verifier.corrupt_runs) == (0, 0)


async def write_more_and_read(zones: Zones, owner: World, other: World) -> None:
    """Let one gateway read another object from another gateway."""
    await owner.create("other", 1)
    owner.adopts = True
    await owner.write(("other", 0, batch("y")))
    await zones.catch_up()
    assert records_of(await other.fetch("other", 0)) == [(0, "y")]


async def test_a_gateway_that_gives_damaged_bytes_is_avoided_for_longer_each_time(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "a"]) as zones:
        zones.network.lying.add("node1")
        other = await cold_tail(zones)
        assert other.zone_reads is not None
        for round_, seconds in enumerate((2.0, 4.0, 8.0)):
            assert records_of(await other.fetch("t", round_)) == [(round_, "x")]
            assert other.zone_reads.counters.damaged == round_ + 1
            await zones.worlds[0].write(("t", 0, batch("x")))
            await other.coordinator.catch_up()
            me = zones.worlds[0].coordinator.incarnation
            await trio.sleep(seconds - 0.01)
            assert other.zone_reads._suspects.holds(me)
            await trio.sleep(0.02)
            assert not other.zone_reads._suspects.holds(me)
        zones.network.lying.clear()
        for round_ in (3, 4):
            assert records_of(await other.fetch("t", round_)) == [(round_, "x")]
            await zones.worlds[0].write(("t", 0, batch("x")))
            await other.coordinator.catch_up()
        assert other.zone_reads._suspects._failures == {}


async def test_a_zone_is_one_by_its_names_and_its_id() -> None:
    for zone_id_map, gets in (("", 1), ("us-east-1a=use1-az4", 0)):
        async with zone_world(["us-east-1a", "use1-az4"], zone_id_map=zone_id_map) as zones:
            other = await cold_tail(zones)
            assert records_of(await other.fetch("t", 0)) == [(0, "x")]
            assert len(zones.store.reads) == gets


async def test_ranges_that_the_owner_misses_are_read_from_the_store() -> None:
    async with zone_world(["a", "a"]) as zones:
        other = await cold_tail(zones)
        [key] = (each.key for each in await zones.store.list(""))
        forget(zones.worlds[0])
        body, modified_at = zones.store._objects.pop(key)
        data = await other.fetch("t", 0)
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert zones.network.statuses["node1", 404]
        zones.store._objects[key] = (body, modified_at)
        assert records_of(await other.fetch("t", 0)) == [(0, "x")]


async def test_two_that_take_each_other_for_the_owner_ask_each_other_once() -> None:
    async with zone_world(["a", "a"]) as zones:
        await cold_tail(zones)
        [key] = (each.key for each in await zones.store.list(""))
        for world in zones.worlds:
            forget(world)
            assert world.zone_reads is not None
            others = [
                each
                for each in world.state.gateways.brokers()
                if each.incarnation != world.coordinator.incarnation
            ]
            world.zone_reads._look_around()
            world.zone_reads._owners = ObjectOwners(others, world.state.topics)
        for world in zones.worlds:
            forget(world)  # the range that it lent is in its memory, too
            assert records_of(await world.fetch("t", 0)) == [(0, "x")]
        assert zones.gets[key] == 2
        assert sum(zones.network.statuses.values()) == 2


async def test_a_lone_gateway_reads_each_object_once(
    autojump_clock: MockClock,
) -> None:
    async with zone_world(["a", "b"]) as zones:
        names = await write_segments(zones, 3, 12)
        zones.store.seconds = 0.05
        async with trio.open_nursery() as readers:
            for name in names:
                readers.start_soon(read_through, zones.worlds[1], name)
        assert list(zones.gets.values()) == [1, 1, 1]
        assert not zones.network.statuses


async def test_blocks_that_were_lent_leave_before_what_came_of_them(
    autojump_clock: MockClock,
) -> None:
    """The cache has room for the runs that were read, but not also for the lent blocks."""
    async with zone_world(["a", "b"], 128 * MIB) as zones:
        names = await write_segments(zones, 8, 12)
        for _ in range(2):
            for name in names:
                await read_through(zones.worlds[1], name)
        assert set(zones.gets.values()) == {1}


async def test_gateways_that_cannot_ask_each_other_read_no_more_than_they_need() -> None:
    async with zone_world(["a", "a"], lends=False) as zones:
        writer, other = zones.worlds
        await writer.create("small", 1)
        await writer.create("large", 1)
        await writer.write(("small", 0, batch("x")), ("large", 0, batch(HALF)))
        await zones.catch_up()
        assert records_of(await other.fetch("small", 0)) == [(0, "x")]
        assert [length < 1000 for _, _, length in zones.store.reads] == [True]


async def test_a_lone_gateway_of_a_zone_asks_no_other() -> None:
    async with zone_world(["a", "b"]) as zones:
        other = await cold_tail(zones)
        assert records_of(await other.fetch("t", 0)) == [(0, "x")]
        assert len(zones.store.reads) == 1
        assert not zones.network.statuses


async def test_a_gateway_lends_only_ranges_of_its_clusters_objects() -> None:
    async with zone_world(["a", "a"]) as zones:
        await cold_tail(zones)
        [info] = await zones.store.list("")
        await zones.store.put("tidegate-owner.json", b"secret")
        foreign = info.key.replace("c" * 22, "d" * 22)
        service = zones.network.services["node1"]

        async def status(ask: ObjectAsk, token: str = TOKEN, method: str = "GET") -> int:
            headers = (("authorization", f"Bearer {token}"),)
            return (await service.handle(HttpRequest(method, target_of(ask), headers))).status

        size = info.size_bytes
        assert await status(ObjectAsk(info.key, 0, 10, size)) == 200
        assert await status(ObjectAsk(info.key, 0, 10, size), token="wrong") == 401
        assert await status(ObjectAsk(info.key, 0, 10, size), method="PUT") == 405
        assert await status(ObjectAsk(info.key, 10, 10, size)) == 400
        assert await status(ObjectAsk(info.key, 0, size + 1, size)) == 400
        assert await status(ObjectAsk(info.key, 0, 17 * MIB, 17 * MIB)) == 400
        assert await status(ObjectAsk("tidegate-owner.json", 0, 6, 6)) == 400
        assert await status(ObjectAsk(foreign, 0, 10, size)) == 404


async def test_lent_bytes_are_bounded_until_they_are_sent() -> None:
    async with zone_world(["a", "a"]) as zones:
        await cold_tail(zones)
        [info] = await zones.store.list("")
        service = zones.network.services["node1"]
        service.objects._lent_bytes = (64 << 20) - 15
        headers = (("authorization", f"Bearer {TOKEN}"),)
        request = HttpRequest(
            "GET", target_of(ObjectAsk(info.key, 0, 10, info.size_bytes)), headers
        )
        first = await service.handle(request)
        assert first.status == 200
        assert (await service.handle(request)).status == 503
        first.on_sent()
        assert (await service.handle(request)).status == 200
