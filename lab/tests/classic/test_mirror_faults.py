"""Gateways mirror a source that fails, or that was replaced; or gateways fail themselves."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.stores.refusing_store import RefusingStore
from tidegate_coordination.client.source_bounds import EARLIEST_LOCAL, source_offset
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_gateway.migration.mirror.link import LinkMirror
from tidegate_gateway.migration.report import links_report
from tidegate_protocol.messages import fetch as fe
from tidegate_simulation.classic.answers import fetch
from tidegate_simulation.classic.log.faults import raise_log_start, truncate

from .test_mirrors import World, becomes, mirroring


def reported(world: World) -> dict[str, object]:
    """Return the first gateway's report of the link."""
    gateway = world.gateways[0].gateway
    return links_report(gateway.links, gateway.coordinator.state)[0]


def tier(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """For these seconds a broker itself has nothing below offset 9, and answers without batches."""
    real = fetch._partition
    until = trio.current_time() + seconds

    async def offset(*arguments: Any) -> int:
        is_remote = arguments[3] == EARLIEST_LOCAL and trio.current_time() < until
        return 9 if is_remote else await source_offset(*arguments)

    def slow(*arguments: Any, **more: Any) -> fe.PartitionData:
        data = real(*arguments, **more)
        if trio.current_time() < until:
            data.records = b""
        return data

    monkeypatch.setattr("tidegate_gateway.migration.mirror.link.source_offset", offset)
    monkeypatch.setattr(fetch, "_partition", slow)


async def test_a_batch_with_a_wrong_crc_is_not_copied(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(2)
        await world.link()
        await world.copied()
        world.write(2)
        log = world.log()
        good = log.batches[-1]
        raw = bytearray(good.raw)
        raw[-1] ^= 1
        log.batches[-1] = good._replace(raw=bytes(raw))
        world.write(1)
        await becomes(lambda: reported(world)["problems"])
        assert "CRC" in str(reported(world)["problems"])
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 2
        log.batches[1] = good
        await world.copied()


async def test_a_source_that_lost_records_is_named(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        for _ in range(3):
            world.write(3)
        await world.link()
        await world.copied()
        truncate(world.log(), 6)
        await becomes(lambda: reported(world)["problems"])
        assert "another history from offset 6" in str(reported(world)["problems"])


async def test_a_source_with_another_history_is_not_copied_on(autojump_clock: MockClock) -> None:
    """After an unclean election the source has grown beyond the copy's end."""
    async with mirroring() as world:
        for _ in range(3):
            world.write(3)
        await world.link()
        await world.copied()
        world.source.elect_unclean("t", 0, 2, 6)
        for _ in range(3):
            world.write(3)
        await becomes(lambda: reported(world)["problems"])
        assert "another history from offset 6" in str(reported(world)["problems"])
        await trio.sleep(60)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 9


async def test_a_broker_that_waits_for_tiered_storage_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers without batches, as if it had none up to the end."""
    async with mirroring() as world:
        await world.link()
        await world.copied()
        tier(monkeypatch, seconds=40)
        for _ in range(3):
            world.write(3)
        await trio.sleep(20)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 0
        await world.copied()


async def test_a_log_start_in_tiered_storage_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy needs the whole batch that contains the log start, so it must be seen first."""
    async with mirroring() as world:
        for _ in range(3):
            world.write(3)
        raise_log_start(world.log(), 4)
        tier(monkeypatch, seconds=30)
        await world.link()
        await trio.sleep(20)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 0
        await world.copied()


async def test_a_source_that_is_away_is_no_bug_of_the_gateway(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        await world.copied()
        with capture_logs() as logged:
            for node_id in (1, 2):
                world.servers.stop_broker(node_id)
            await trio.sleep(300)
        assert [each for each in logged if each["log_level"] == "error"] == []
        for node_id in (1, 2):
            world.servers.start_broker(node_id)
        world.write(2)
        await world.copied()


async def test_a_gateway_that_the_store_refuses_leaves_its_copies_to_others(
    autojump_clock: MockClock,
) -> None:
    async with mirroring(gateways=0) as world:
        way = RefusingStore(world.ours.store)
        running = [(await world.gateway(store)).gateway.links.running for store in (way, None)]
        await world.link()

        def mirrored() -> list[int]:
            found = (each["src"].mirror for each in running if "src" in each)
            return [len(each.mirrors) for each in found if each is not None]

        await becomes(lambda: len(mirrored()) == 2 and sum(mirrored()) == 2)
        before = mirrored()
        assert before[0]
        way.refused.add("put")
        for index in (0, 1):
            world.write(3, index)
        for index in (0, 1):
            await world.copied(index)
        assert mirrored() == [0, 2]
        await becomes(lambda: world.gateways[0].gateway.reads.store_way.is_cut_off)
        way.refused.clear()
        await becomes(lambda: mirrored() == before)
        for index in (0, 1):
            world.write(2, index)
            await world.copied(index)


async def test_an_unexpected_error_ends_a_link_for_a_while_only(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        await world.link()
        await world.copied()
        links = world.gateways[0].gateway.links

        def fail(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patch, capture_logs():
            patch.setattr(LinkMirror, "_assign", fail)
            await becomes(lambda: links.running["src"].problem == "a bug")
        world.write(2)
        await world.copied()
        assert links.running["src"].problem == ""


async def test_a_topic_that_was_made_again_is_not_mixed_with_its_copy(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        world.write(3)
        await world.link()
        await world.copied()
        world.source.recreate_topic("t")
        world.write(5)
        await trio.sleep(30)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 3
        assert reported(world)["refused_topics"] == {"t": "the name is taken here: by topic t"}


async def test_the_log_and_the_store_may_be_away(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        await world.copied()
        for _ in range(3):
            world.ours.log.is_away = True
            world.write(2)
            await trio.sleep(15)
            world.ours.log.is_away = False
            await world.copied()


async def test_a_wrong_cluster_behind_the_address_is_not_mirrored(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        link = SetLink("src", "another", "b1:9092", ("t",))
        assert await world.gateways[0].gateway.coordinator.propose(link) is None
        links = world.gateways[0].gateway.links
        await becomes(lambda: "src" in links.running and links.running["src"].problem)
        assert "belong to cluster classic-cluster" in links.running["src"].problem
        await trio.sleep(30)
        assert world.copy() is None
