"""Writes to mirrored topics are forwarded to the source, in order, and never twice."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.forward_world import (
    LINK,
    TOPIC,
    ForwardWorld,
    Pipelined,
    batch,
    forward_world,
    id_of,
)
from tests.worlds.wire_client import Closed
from tidegate_coordination.rules.migration.switches import ReachFence, SwitchTopics
from tidegate_gateway.migration.forward.writes import FENCE_SECONDS, Forwards
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E


def client_of(world: ForwardWorld, version: int = 9) -> Pipelined:
    return Pipelined(world.world.connect(), version)


async def write(world: ForwardWorld, value: bytes, partition: int = 0) -> tuple[int, int]:
    client = client_of(world)
    await client.send((TOPIC, partition, batch(value)))
    [answer] = await client.answer()
    return answer.error_code, answer.base_offset


async def test_the_source_gives_the_offset(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        await client.send((TOPIC, 1, batch(b"a")))
        [answer] = await client.answer()
        assert (answer.error_code, answer.base_offset) == (0, 1000)
        assert (answer.log_append_time_ms, answer.log_start_offset) == (77, 5)
        assert world.taken == {(TOPIC, 1): [b"a"]}
        assert world.forwards.forwarded_bytes == len(batch(b"a"))


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
async def test_clients_of_all_versions(version: int, autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world, version)
        name, topic_id = ("", id_of(TOPIC)) if version >= 13 else (TOPIC, bytes(16))
        await client.send((name, 0, batch(b"a")), topic_id=topic_id)
        [answer] = await client.answer()
        assert (answer.error_code, answer.base_offset) == (0, 1000)


async def test_sources_without_topic_ids_get_names(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        for broker in world.source.brokers.values():
            broker.versions = {**broker.versions, "Produce": (3, 8)}
        assert await write(world, b"a") == (0, 1000)
        [asked] = world.asked()
        assert (asked.version, asked.request.topic_data[0].name) == (8, TOPIC)


async def test_many_requests_of_a_connection_keep_their_order(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        values = [b"%d" % each for each in range(100)]
        for each in values:
            await client.send((TOPIC, 0, batch(each)))
        for at in range(100):
            [answer] = await client.answer()
            assert (answer.error_code, answer.base_offset) == (0, 1000 + at)
        assert world.taken == {(TOPIC, 0): values}


async def test_requests_go_out_before_earlier_answers(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.source.brokers[2].answers["Produce"] = lambda asked: None
        client = client_of(world)
        await client.send((TOPIC, 1, batch(b"slow")))
        await client.send((TOPIC, 1, batch(b"next")))
        await client.send((TOPIC, 0, batch(b"quick")))
        await trio.sleep(1)
        assert world.taken == {(TOPIC, 0): [b"quick"]}
        assert world.source.brokers[2].names_asked().count("Produce") == len(["slow", "next"])


async def test_a_request_may_go_to_several_brokers_and_to_this_cluster(
    autojump_clock: MockClock,
) -> None:
    async with forward_world() as world:
        await world.world.create_topic("own", 1)
        client = client_of(world)
        await client.send((TOPIC, 2, batch(b"a")), ("own", 0, batch(b"b")), (TOPIC, 0, batch(b"c")))
        answers = await client.answer()
        assert [each.error_code for each in answers] == [0, 0, 0]
        assert [each.base_offset for each in answers] == [1000, 0, 1000]
        assert world.taken == {(TOPIC, 2): [b"a"], (TOPIC, 0): [b"c"]}
        assert await client.client.fetch_values("own", 0, 0) == [b"b"]


async def test_a_lost_connection_to_the_source_closes_the_clients(
    autojump_clock: MockClock,
) -> None:
    async with forward_world() as world:
        world.hold()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"a")))
        await trio.sleep(1)
        world.code = -1
        world.release()
        with pytest.raises(Closed):
            await client.answer()
        assert [each.name for each in world.asked()] == ["Produce"]  # the batch is never sent again


async def test_nothing_is_forwarded_after_a_loss(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        world.code = -1
        for each in (b"1", b"2", b"3"):
            await client.send((TOPIC, 0, batch(each)))
        await wait_all_tasks_blocked()
        world.code = 0
        with pytest.raises(Closed):
            await client.answer()
        await trio.sleep(5)
        assert world.taken[TOPIC, 0] == [b"1"]
        assert await write(world, b"new") == (0, 1001)


async def test_a_source_that_does_not_answer_in_time_closes_the_client(
    autojump_clock: MockClock,
) -> None:
    async with forward_world() as world:
        for broker in world.source.brokers.values():
            broker.answers["Produce"] = lambda asked: None
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"a")))
        [answer] = await client.answer()
        assert answer.error_code == E.REQUEST_TIMED_OUT  # after the timeout of the client's request
        with pytest.raises(Closed):
            await client.answer()


async def test_acks_0_is_forwarded_as_acks_1_without_an_answer(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"a")), acks=0)
        await client.send((TOPIC, 0, batch(b"b")), acks=1)
        [answer] = await client.answer()
        assert answer.base_offset == 1001
        assert [each.request.acks for each in world.asked()] == [1, 1]


async def test_an_error_with_acks_0_closes_the_connection(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.code = E.NOT_ENOUGH_REPLICAS
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"a")), acks=0)
        with pytest.raises(Closed):
            await client.answer()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (E.MESSAGE_TOO_LARGE, E.NOT_LEADER_OR_FOLLOWER),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_LEADER_OR_FOLLOWER),
        (E.UNKNOWN_TOPIC_ID, E.UNKNOWN_TOPIC_OR_PARTITION),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (E.TOPIC_AUTHORIZATION_FAILED, E.TOPIC_AUTHORIZATION_FAILED),
        (999, 999),
    ],
)
async def test_errors_of_the_source(theirs: int, ours: int, autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.code = theirs
        assert await write(world, b"a") == (ours, -1)


async def test_a_batch_above_the_topics_limit_is_too_large(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.code = E.MESSAGE_TOO_LARGE
        assert await write(world, bytes(2 << 20)) == (E.MESSAGE_TOO_LARGE, -1)


async def test_a_new_leader_is_found(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        assert await write(world, b"a") == (0, 1000)
        world.source.leaders[TOPIC][0] = 3
        world.code = E.NOT_LEADER_OR_FOLLOWER
        assert await write(world, b"b") == (E.NOT_LEADER_OR_FOLLOWER, -1)
        world.code = 0
        await trio.sleep(1)
        assert await write(world, b"b") == (0, 1001)
        assert [each.name for each in world.source.brokers[3].asked][-1] == "Produce"


async def test_a_batch_after_a_refused_one_closes_the_connection(
    autojump_clock: MockClock,
) -> None:
    async with forward_world() as world:
        client = client_of(world)
        world.code = E.NOT_LEADER_OR_FOLLOWER
        await client.send((TOPIC, 0, batch(b"1")))
        [answer] = await client.answer()
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        world.code = 0
        await client.send((TOPIC, 1, batch(b"another partition")))
        [answer] = await client.answer()
        assert answer.error_code == 0
        await client.send((TOPIC, 0, batch(b"2")))
        with pytest.raises(Closed):
            await client.answer()
        assert (TOPIC, 0) not in world.taken


async def test_a_partition_without_a_leader(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.source.leaders[TOPIC][0] = -1
        await world.forwards.look(world.coordinator.state.topics.by_name[TOPIC]).wait()
        assert await write(world, b"a") == (E.LEADER_NOT_AVAILABLE, -1)
        world.source.leaders[TOPIC][0] = 1
        await trio.sleep(1)
        assert await write(world, b"a") == (0, 1000)


async def test_a_source_that_is_down(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        for broker in world.source.brokers.values():
            broker.is_up = False
            for stream in broker.streams:
                await stream.aclose()
        assert (await write(world, b"a"))[0] in (E.NOT_LEADER_OR_FOLLOWER, E.LEADER_NOT_AVAILABLE)
        for broker in world.source.brokers.values():
            broker.is_up = True
        await trio.sleep(10)
        assert await write(world, b"a") == (0, 1000)


async def test_a_link_that_does_not_forward_refuses(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        await world.link(forwards=False, replaces=True)
        assert await write(world, b"a") == (E.TOPIC_AUTHORIZATION_FAILED, -1)
        assert world.asked() == []


async def test_a_link_on_hold_refuses(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.coordinator.state.switches.hold_links([LINK])
        assert await write(world, b"a") == (E.NOT_LEADER_OR_FOLLOWER, -1)


async def test_transactional_batches_are_refused(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        found = batch(
            b"a", producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
        )
        await client.send((TOPIC, 0, found))
        [answer] = await client.answer()
        assert answer.error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert world.asked() == []


async def test_a_damaged_batch_never_leaves(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        damaged = bytearray(batch(b"a"))
        damaged[-1] ^= 1
        await client.send((TOPIC, 0, bytes(damaged)))
        [answer] = await client.answer()
        assert answer.error_code == E.CORRUPT_MESSAGE
        assert world.asked() == []


async def test_a_partition_that_is_not_there(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        assert await write(world, b"a", 9) == (E.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_a_partition_named_twice(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"a")), (TOPIC, 0, batch(b"b")))
        assert [each.error_code for each in await client.answer()] == [0]
        assert world.taken == {(TOPIC, 0): [b"b"]}, "the last batch counts, as in Kafka"


# -- fences ---------------------------------------------------------------------------------------


async def test_a_fence_parks_and_its_end_lets_go_on(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        fence = await world.fence()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await client.send((TOPIC, 0, batch(b"2")))
        await trio.sleep(5)
        assert world.asked() == []
        assert world.forwards.waiting == 1
        await world.unfence(fence)
        assert [(await client.answer())[0].base_offset for _ in range(2)] == [1000, 1001]
        assert world.taken == {(TOPIC, 0): [b"1", b"2"]}
        assert world.forwards.waiting == 0


async def test_a_switched_topic_takes_what_was_parked_in_order(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        fence = await world.fence()
        client = client_of(world)
        for each in (b"1", b"2", b"3"):
            await client.send((TOPIC, 0, batch(each)))
        await trio.sleep(1)
        ends = ((id_of(TOPIC), (0, 0, 0)),)
        [incarnation] = world.coordinator.state.gateways.live
        world.coordinator.state.switches.fences[fence].awaited.discard(incarnation)
        assert await world.coordinator.propose(SwitchTopics(fence, ends)) == ""
        offsets = [(await client.answer())[0].base_offset for _ in range(3)]
        assert offsets == [0, 1, 2]
        assert await client.client.fetch_values(TOPIC, 0, 0) == [b"1", b"2", b"3"]
        assert world.asked() == []


async def test_a_fence_that_stays_refuses_in_time(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        fence = await world.fence()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        begun = trio.current_time()
        [answer] = await client.answer()
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert FENCE_SECONDS <= trio.current_time() - begun < FENCE_SECONDS + 1
        await world.unfence(fence)
        await client.send((TOPIC, 0, batch(b"2")))
        with pytest.raises(Closed):
            await client.answer()


async def test_drained_waits_for_answers(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.hold()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await trio.sleep(1)
        await world.fence()
        await world.forwards.drained([b"another topic..."])
        is_drained = trio.Event()

        async def drain() -> None:
            await world.forwards.drained([id_of(TOPIC)])
            is_drained.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await client.send((TOPIC, 0, batch(b"2")))
            await trio.sleep(5)
            assert not is_drained.is_set()
            world.release()
            await trio.sleep(5)
            assert is_drained.is_set()
        assert (await client.answer())[0].base_offset == 1000
        assert world.taken == {(TOPIC, 0): [b"1"]}


async def test_drained_ends_when_the_connection_is_lost(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        world.hold()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await trio.sleep(1)
        world.code = -1
        world.release()
        await world.forwards.drained([id_of(TOPIC)])


async def test_what_lacks_an_answer_is_bounded(autojump_clock: MockClock) -> None:
    size = str(1 << 20)
    async with forward_world({"link.forward.bytes.max": size}) as world:
        world.hold()
        first, second = client_of(world), client_of(world)
        await first.send((TOPIC, 0, batch(bytes(900_000))))
        await trio.sleep(1)
        await second.send((TOPIC, 0, batch(bytes(900_000))))
        await trio.sleep(5)
        assert len(world.asked()) == 1
        assert world.forwards.waiting == 1
        world.release()
        assert (await first.answer())[0].error_code == 0
        assert (await second.answer())[0].error_code == 0


# -- at the switch ---------------------------------------------------------------------------------


async def switched_at_start(world: ForwardWorld) -> None:
    """Switch the topic; all its partitions end at offset 0 at the source."""
    number = await world.fence()
    await world.coordinator.propose(ReachFence(number))
    ends = ((id_of(TOPIC), (0, 0, 0)),)
    assert await world.coordinator.propose(SwitchTopics(number, ends)) == ""


async def test_a_record_beyond_the_switch_is_not_acknowledged(autojump_clock: MockClock) -> None:
    """The fence did not wait for this gateway, whose lease had ended: the copy lacks the record."""
    async with forward_world() as world:
        world.hold()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await trio.sleep(0.5)
        await switched_at_start(world)
        world.release()
        with pytest.raises(Closed):
            await client.answer()


async def test_a_batch_of_a_client_that_is_gone_is_not_written(autojump_clock: MockClock) -> None:
    async with forward_world() as world:
        number = await world.fence()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await trio.sleep(0.1)
        client.client.transport.close()
        await trio.sleep(0.1)
        await world.coordinator.propose(ReachFence(number))
        ends = ((id_of(TOPIC), (0, 0, 0)),)
        assert await world.coordinator.propose(SwitchTopics(number, ends)) == ""
        await trio.sleep(2)
        state = world.coordinator.state
        topic = state.topics.by_name[TOPIC]
        assert state.partitions[topic.partition_numbers[0]].next_offset == 0


async def test_a_gateway_without_a_lease_takes_no_answer(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with forward_world() as world:
        world.hold()
        client = client_of(world)
        await client.send((TOPIC, 0, batch(b"1")))
        await trio.sleep(0.5)
        monkeypatch.setattr(Forwards, "_is_over", property(lambda _: True))
        world.release()
        with pytest.raises(Closed):
            await client.answer()
