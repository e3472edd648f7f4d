"""`tidegate topic consume` of batches that were stored before gateways walked over records."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.commands.topics.test_consume_command import appended_to, values
from tests.worlds.kafka_world import KafkaWorld, kafka_world
from tests.worlds.wire_client import NOW_MS
from tidegate_coordination.client.consumer import reading
from tidegate_coordination.client.failed import Failed
from tidegate_gateway.cli.topic.consume import ConsumeOptions, consume
from tidegate_protocol.batches import read_header, with_header
from tidegate_protocol.compression import Codec
from tidegate_protocol.records import Record, build_batch

UNSEEN = {"record.validation": "header"}
RECORDS = [Record(at, NOW_MS, None, b"v%d" % at) for at in range(3)]


async def store(world: KafkaWorld, batch: bytes, **head: int) -> None:
    """Store a batch with other fields in its header."""
    made, _ = with_header(memoryview(batch), read_header(batch)._replace(**head))
    answer = await world.wire.connect().produce("orders", 0, bytes(made))
    assert answer.error_code == 0


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_malformed_batch_is_named(codec: Codec, autojump_clock: MockClock) -> None:
    async with kafka_world(**UNSEEN) as world:
        await world.wire.create_topic("orders", 1)
        await store(world, build_batch(RECORDS[:1]))
        await store(world, build_batch(RECORDS, codec=codec), record_count=4, last_offset_delta=3)
        printed: list[bytes] = []
        options = ConsumeOptions("orders", only_values=True)
        with pytest.raises(Failed, match=r"partition 0, offset \d: the batch is malformed: "):
            await consume(world.cluster, options, appended_to(printed), is_terminal=False)
        assert b"".join(printed).splitlines()[0] == b"v0"


async def test_a_batch_that_grows_beyond_memory_is_named(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "DECOMPRESSED_BYTES", 1000)
    async with kafka_world(**UNSEEN) as world:
        await world.wire.create_topic("orders", 1)
        await store(world, build_batch([Record(0, NOW_MS, None, bytes(2000))], codec=Codec.ZSTD))
        with pytest.raises(Failed, match=r"partition 0, offset 0: .*larger than 1000 bytes"):
            await values(world)


@pytest.mark.parametrize("most", [None, 1, 2, 3])
async def test_a_batch_of_many_records_comes_in_parts(
    most: int | None, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "RECORDS_AT_ONCE", 2)
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1)
        await store(world, build_batch(RECORDS))
        await store(world, build_batch(RECORDS))
        expected = [f"0:{at}=v{at % 3}" for at in range(6)]
        assert await values(world, most=most) == expected[:most]
        assert await values(world, start="1", most=most) == expected[1:][:most]
