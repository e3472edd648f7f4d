"""Topics are switched from a classic cluster, the model, to gateways, or they stay there."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import records_batch
from tidegate_coordination.client.source_bounds import LATEST, source_offsets
from tidegate_coordination.rules.migration.switches import FenceTopics, LiftFence, ReopenSource
from tidegate_coordination.state.migration.switches import SwitchTable
from tidegate_gateway.migration.switch import source_fence
from tidegate_gateway.migration.switch.switching import Switching
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.records import Record, build_batch
from tidegate_simulation.classic.answers import configs
from tidegate_simulation.classic.log.faults import raise_log_start
from tidegate_simulation.classic.model_topics import ModelTopic
from tidegate_simulation.classic.profiles import KAFKA_4_3
from tidegate_simulation.classic.topic_settings import KINDS

from .test_mirrors import NOW_MS, World, becomes, mirroring, told_epochs

LIMIT = "max.message.bytes"


def switches(world: World) -> SwitchTable:
    return world.gateways[0].gateway.coordinator.state.switches


def topic(world: World) -> ModelTopic:
    return world.source.topics["t"]


def limit(world: World) -> str | None:
    return topic(world).configs.latest.get(LIMIT)


async def fence(world: World, before: str = "") -> int:
    proposal = FenceTopics("src", ((topic(world).topic_id, before),))
    number = await world.gateways[0].gateway.coordinator.propose(proposal)
    assert isinstance(number, int)
    return number


async def switched(world: World) -> None:
    await fence(world)
    await becomes(lambda: not switches(world).fences)
    assert topic(world).topic_id in switches(world).switched


async def produced(world: World, at: int = 0, **head: int) -> tuple[int, int]:
    """Write a record through a gateway; return its error and offset."""
    client = world.gateways[at].world.connect()
    answer = await client.produce("t", 0, records_batch(b"own", **head))
    return answer.error_code, answer.base_offset


async def test_offsets_and_sequences_go_on_here(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await world.link()
        for sequence in range(3):
            world.write(1, producer_id=7, producer_epoch=0, base_sequence=sequence)
        world.write(2, index=1)
        await world.copied()
        begun = trio.current_time()
        await switched(world)
        assert trio.current_time() - begun < 2
        assert limit(world) == "0"
        again = await produced(world, 1, producer_id=7, producer_epoch=0, base_sequence=2)
        assert again == (E.NONE, 2)
        following = await produced(world, 1, producer_id=7, producer_epoch=0, base_sequence=3)
        assert following == (E.NONE, 3)
        ends = switches(world).switched[topic(world).topic_id].ends
        assert ends == (3, 2)


async def test_offsets_are_asked_of_a_new_leader(autojump_clock: MockClock) -> None:
    """If the former leader refuses, the new one is asked soon, not a minute later."""
    async with mirroring() as world:
        await world.link()
        world.write(3)
        await world.copied()
        mirror = world.gateways[0].gateway.links.running["src"].mirror
        assert mirror is not None
        cluster = mirror._cluster
        leader = world.source.partition("t", 0).leader
        world.source.move_leader("t", 0, 3 - leader)
        begun = trio.current_time()
        found = await source_offsets(cluster, [("t", 0), ("t", 1)], LATEST)
        assert trio.current_time() - begun < 2
        assert found == {("t", 0): 3, ("t", 1): 0}


async def test_what_came_before_the_fence_is_here_after_it(autojump_clock: MockClock) -> None:
    """When the switch begins, the copy lacks the last records, which a fetch has yet to read."""
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        world.write(5)
        await switched(world)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 6


async def test_the_end_may_grow_after_a_leader_said_that_it_is_fenced(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = source_fence.unfenced, list[int]()

    async def unfenced(*arguments: Any) -> Any:
        found = await real(*arguments)
        calls.append(1)
        if len(calls) == 2:  # the probe after the drain: a leader appends a late batch
            world.write(1)
        return found

    monkeypatch.setattr("tidegate_gateway.migration.switch.switching.unfenced", unfenced)
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        await switched(world)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 2


@pytest.mark.parametrize("before", ["", "70000"])
async def test_a_source_that_cannot_be_switched_takes_writes_again(
    autojump_clock: MockClock, before: str
) -> None:
    async with mirroring() as world:
        await world.link()
        if before:
            world.source.set_config("t", LIMIT, before, 0)
        world.write(1)
        await world.copied()
        world.source.hold_watermark("t", 0)
        world.write(1)
        assert world.log().high_watermark < world.log().end_offset
        await fence(world, before)
        await becomes(lambda: limit(world) == "0")
        with capture_logs() as logs:
            await becomes(lambda: not switches(world).fences)
        assert topic(world).topic_id not in switches(world).switched
        assert limit(world) == (before or None)
        assert any(each["event"] == "a switch is given up" for each in logs)


async def test_a_gateway_that_fences_too_late_opens_the_source_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway stands still before it fences the source, and the fence is lifted meanwhile."""
    real = source_fence.set_limits

    async def late(cluster: Any, limits: dict[str, str], **more: Any) -> None:
        if set(limits.values()) == {"0"} and not stopped:
            stopped.append(1)
            coordinator = world.gateways[0].gateway.coordinator
            assert await coordinator.propose(LiftFence(1, "test"))
            await coordinator.propose(ReopenSource(1))
        await real(cluster, limits, **more)

    stopped = list[int]()
    monkeypatch.setattr("tidegate_gateway.migration.switch.switching.set_limits", late)
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        await fence(world)
        await becomes(lambda: bool(stopped))
        await trio.sleep(1)
        assert limit(world) is None


async def test_a_fence_that_a_dead_gateway_left_is_removed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> None:
        await trio.sleep_forever()

    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        monkeypatch.setattr(Switching, "_switch", nothing)
        await fence(world)
        coordinator = world.gateways[0].gateway.coordinator
        assert await coordinator.propose(LiftFence(1, "test"))
        await coordinator.propose(ReopenSource(1))
        world.source.set_config("t", LIMIT, "0", 0)
        await becomes(lambda: limit(world) is None)


async def test_records_at_the_source_after_the_switch_are_told(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        await switched(world)
        world.source.set_config("t", LIMIT, None, 0)
        with capture_logs() as logs:
            world.write(2)
            await becomes(lambda: limit(world) == "0")
            running = world.gateways[0].gateway.links.running["src"]
            await becomes(lambda: running.watch is not None and running.watch.strays)
        assert running.watch is not None
        assert running.watch.strays == {("t", 0): 2}
        [told] = [each for each in logs if each["log_level"] == "error"]
        assert (told["partition"], told["first_offset"], told["records"]) == ("t-0", 1, 2)


async def test_a_topic_that_has_grown_at_the_source_is_not_switched(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        grow = partial(world.source.add_partitions, "t", 3)
        await fence(world)
        grow()
        await becomes(lambda: not switches(world).fences)
        assert topic(world).topic_id not in switches(world).switched
        assert limit(world) is None


async def test_a_topic_that_is_gone_at_the_source_keeps_no_fence_standing(
    autojump_clock: MockClock,
) -> None:
    async with mirroring(gateways=2) as world:
        world.source.create_topic("u", 1, replication_factor=2)
        await world.link("t", "u")
        world.write(1)
        await world.copied()
        topics = world.gateways[0].gateway.coordinator.state.topics.by_name
        await becomes(lambda: "u" in topics)
        world.source.hold_watermark("t", 0)
        world.write(1)
        both = tuple((topics[each].topic_id, "") for each in ("t", "u"))
        await world.gateways[0].gateway.coordinator.propose(FenceTopics("src", both))
        await becomes(lambda: limit(world) == "0")
        world.source.delete_topic("u")
        await becomes(lambda: not switches(world).fences)
        assert limit(world) is None


async def test_a_transaction_whose_records_have_expired_ends_before_the_switch(
    autojump_clock: MockClock,
) -> None:
    """No copy shows the transaction, and the fence would block its marker for ever."""
    async with mirroring() as world:
        world.write(2, producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
        raise_log_start(world.log(), 2)
        world.write(1)
        await world.link()
        await becomes(lambda: (copy := world.copy()) is not None and copy.next_offset == 3)
        copy = world.copy()
        assert copy is not None
        assert not copy.open
        await fence(world)
        with capture_logs() as logs:
            await becomes(lambda: not switches(world).fences)
        assert topic(world).topic_id not in switches(world).switched
        assert limit(world) is None
        [told] = [each for each in logs if each["event"] == "a switch is given up"]
        assert told["reason"] == "t-0 has an open transaction at the source"
        world.mark(7, committed=True)
        await world.copied()
        await trio.sleep(61)
        await switched(world)


async def test_a_source_that_does_not_tell_its_producers_is_switched(
    autojump_clock: MockClock,
) -> None:
    older = KAFKA_4_3.without({ApiKey.DESCRIBE_PRODUCERS})
    async with mirroring(profile=older) as world:
        await world.link()
        world.write(1)
        await world.copied()
        await switched(world)


async def test_a_topic_that_was_made_anew_at_the_source_keeps_its_configs(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        world.source.hold_watermark("t", 0)
        world.write(1)
        await fence(world, "70000")
        await becomes(lambda: limit(world) == "0")
        world.source.recreate_topic("t")
        world.source.set_config("t", LIMIT, "999", 0)
        await becomes(lambda: not switches(world).fences)
        assert limit(world) == "999"


async def test_only_the_gateway_that_lifted_a_fence_reopens_the_source(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other gateways wait, although this one is slow.

    A late request of another gateway would reopen the source while the next fence holds.
    """
    real, asked = source_fence.set_limits, list[str]()

    async def counted(cluster: Any, limits: dict[str, str], **more: Any) -> None:
        asked.extend(limits.values())
        if "" in limits.values():
            await trio.sleep(1.5)
        await real(cluster, limits, **more)

    monkeypatch.setattr("tidegate_gateway.migration.switch.switching.set_limits", counted)
    async with mirroring(gateways=3) as world:
        await world.link()
        world.write(1)
        await world.copied()
        world.source.hold_watermark("t", 0)
        world.write(1)
        await fence(world)
        await becomes(lambda: not switches(world).fences)
        await trio.sleep(10)
        assert asked.count("") == 1


async def test_the_copy_keeps_what_its_source_keeps(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers of the source keep records for ever, and this cluster's keep them for a week."""
    monkeypatch.setattr(configs, "_DEFAULT", 4)  # as if brokers had set their defaults
    monkeypatch.setattr(
        configs,
        "KINDS",
        {**KINDS, "retention.ms": KINDS["retention.ms"]._replace(default="-1")},
    )
    async with mirroring() as world:
        await world.link()
        old = Record(0, NOW_MS - 10 * 86_400_000, b"k", b"v")
        world.write_raw(build_batch([old]))
        await world.copied()
        await switched(world)
        await trio.sleep(1000)
        copy = world.copy()
        assert copy is not None
        assert (copy.log_start, copy.next_offset) == (0, 1)


async def test_a_newer_leader_epoch_of_the_source_is_taken_over(autojump_clock: MockClock) -> None:
    """The source has elected other leaders and got no batch since, so copies lack their epochs."""
    async with mirroring() as world:
        await world.link()
        world.write(2)
        await world.copied()
        for node_id in (2, 1, 2):
            world.source.move_leader("t", 0, node_id)
        theirs = world.source.partition("t", 0).leader_epoch
        copy = world.copy()
        assert copy is not None
        before = copy.leader_epoch
        assert before < theirs
        await switched(world)
        assert await produced(world) == (E.NONE, 2)
        copy = world.copy()
        assert copy is not None
        assert (copy.epoch_at(1), copy.epoch_at(2)) == (before, theirs)
        assert (await told_epochs(world))[0] == theirs
