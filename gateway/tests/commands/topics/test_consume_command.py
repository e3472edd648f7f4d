"""`tidegate topic consume`: which records it prints, and their format."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.kafka_world import KafkaWorld, kafka_world
from tests.worlds.transaction_client import end, init, write
from tests.worlds.wire_client import NOW_MS
from tidegate_coordination.client.consumer.positions import Position, PositionKind, read_position
from tidegate_coordination.client.consumer.reading import (
    STALL_SECONDS,
    Found,
    ReadOptions,
    TopicReader,
)
from tidegate_coordination.client.errors import Disconnected, Refused
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.wire.connection import BrokerConnection
from tidegate_gateway.cli.topic.consume import ConsumeOptions, consume
from tidegate_gateway.cli.topic.record_text import json_line, text_line, time_text, value_line
from tidegate_gateway.requests.records import fetch_answer
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages.fetch import PartitionData
from tidegate_protocol.records import Record, build_batch
from tidegate_runtime.settings_texts import BadSource


def appended_to(printed: list[bytes]) -> Callable[[bytes], Awaitable[None]]:
    """Return a write() for consume()."""

    async def write(data: bytes) -> None:
        printed.append(data)

    return write


# -- pure ------------------------------------------------------------------------------------------

HOSTILE = Found(
    3,
    Record(
        7,
        1_700_000_000_123,
        b"k\x1b[2J",
        b"\xff\nv\tx",
        (("h\x07", b"\x00"), ("n", None), ("\udcff", b"e")),
    ),
)


def test_a_terminal_gets_no_control_character() -> None:
    line = text_line(HOSTILE).decode()
    assert line == (
        "3:7  2023-11-14T22:13:20.123Z  key=k\\x1b[2J  \\xff\\nv\\tx  [h\\x07=\\x00]  [n=]"
        "  [\\xff=e]\n"
    )
    assert value_line(HOSTILE, is_escaped=True) == b"\\xff\\nv\\tx\n"
    assert value_line(HOSTILE, is_escaped=False) == b"\xff\nv\tx\n"


def test_what_is_no_utf_8_is_in_base64() -> None:
    assert json.loads(json_line("orders", HOSTILE)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k\x1b[2J",
        "value_base64": "/wp2CXg=",
        "headers": [
            {"name": "h\x07", "value": "\x00"},
            {"name": "n", "value": None},
            {"name_base64": "/w==", "value": "e"},
        ],
    }


def test_nulls_and_strange_times() -> None:
    found = Found(0, Record(1, -1, None, None))
    assert text_line(found) == b"0:1  -  (null)\n"
    assert json.loads(json_line("t", found))["key"] is None
    assert value_line(found, is_escaped=False) == b"\n"
    assert time_text(2**62) == f"@{2**62}"
    assert time_text(-2) == "1969-12-31T23:59:59.998Z"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(PositionKind.EARLIEST)),
        ("Latest", Position(PositionKind.LATEST)),
        ("17", Position(PositionKind.OFFSET, 17)),
        ("+3", Position(PositionKind.SHIFT, 3)),
        ("-3", Position(PositionKind.SHIFT, -3)),
        ("@1700000000000", Position(PositionKind.TIME, 1_700_000_000_000)),
        ("2023-11-14T22:13:20", Position(PositionKind.TIME, 1_700_000_000_000)),
        ("2023-11-14T23:13:20.123+01:00", Position(PositionKind.TIME, 1_700_000_000_123)),
        ("2038-01-19T09:52:15.950", Position(PositionKind.TIME, 2_147_507_535_950)),
        ("2023-11-14", Position(PositionKind.TIME, 1_699_920_000_000)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert read_position(text, "--to", shifts=True) == position


@pytest.mark.parametrize(
    "text", ["", "soon", "+", "-1", "+1", "2023-13-01", "1e3", str(2**63), "²"]
)
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(BadSource, match=r"--from .*: give earliest, latest, an offset"):
        read_position(text, "--from")


# -- a gateway -------------------------------------------------------------------------------------


async def values(world: KafkaWorld, **options: Any) -> list[str]:
    """Return partition, offset and value of each record that the command prints."""
    printed: list[bytes] = []
    chosen = ConsumeOptions("orders", as_json=True, **options)
    assert await consume(world.cluster, chosen, appended_to(printed), is_terminal=False) == 0
    rows = [json.loads(each) for each in b"".join(printed).splitlines()]
    return sorted(f"{each['partition']}:{each['offset']}={each['value']}" for each in rows)


async def test_from_a_place_to_the_end(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 2)
        for partition in (0, 1):
            await world.write("orders", b"a\nb\nc\n", partition=partition)
        later = world.wire.connect()
        record = Record(0, NOW_MS + 5000, None, b"d", ())
        await later.produce("orders", 1, build_batch([record]))

        everything = ["0:0=a", "0:1=b", "0:2=c", "1:0=a", "1:1=b", "1:2=c", "1:3=d"]
        assert await values(world) == everything
        assert await values(world, start="2") == ["0:2=c", "1:2=c", "1:3=d"]
        assert await values(world, start="latest") == []
        assert await values(world, start=f"@{NOW_MS + 1}") == ["1:3=d"]
        assert await values(world, start=f"@{NOW_MS + 9000}") == []
        assert await values(world, partitions=(1,)) == everything[3:]
        assert len(await values(world, most=5)) == 5
        assert await values(world, partitions=(1,), most=2) == ["1:0=a", "1:1=b"]


async def test_what_cannot_be_read_is_said(
    autojump_clock: MockClock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 2)
        await world.write("orders", b"a\nb\nc\n", partition=1)
        with pytest.raises(Failed, match="orders has 2 partitions, from 0 on: there is no 2"):
            await values(world, partitions=(0, 2))
        with pytest.raises(Failed, match="partition 1 ends before offset 9"):
            await values(world, start="9", partitions=(1,), follows=True)
        options = ConsumeOptions("missing")
        with pytest.raises(Failed, match="there is no topic missing"):
            await consume(world.cluster, options, appended_to([]), is_terminal=False)

        part = dr.DeleteRecordsPartition(1, 2)
        request = dr.DeleteRecordsRequest([dr.DeleteRecordsTopic("orders", [part])], 1000)
        await world.wire.connect().call("DeleteRecords", 2, request)
        told = "partition 1: offsets 0 to 1 are deleted already; reading goes on behind them"
        assert await values(world, start="0", partitions=(1,)) == ["1:2=c"]
        assert capsys.readouterr().err == f"tidegate: {told}\n"
        monkeypatch.setattr(fetch_answer, "_failed", failed_as_kafka)
        assert await values(world, start="0", partitions=(1,)) == ["1:2=c"]
        assert capsys.readouterr().err == f"tidegate: {told}\n"


def failed_as_kafka(index: int, code: int, partition: object) -> PartitionData:
    """Return Kafka's answer with an error, which has no offsets."""
    return PartitionData(index, code, -1, -1, -1, records=b"")


async def test_what_is_written_meanwhile_is_not_shown(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1)
        for text in (b"a\nb\n", b"c\n"):
            await world.write("orders", text)

        async def ends(self: TopicReader, places: object) -> dict[tuple[str, int], int]:
            await trio.lowlevel.checkpoint()
            return {("orders", 0): 2}

        monkeypatch.setattr(TopicReader, "_ends", ends)
        assert await values(world) == ["0:0=a", "0:1=b"]


async def test_records_that_never_come_are_not_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1)
        await world.write("orders", b"a\nb\n")

        async def ends(self: TopicReader, places: object) -> dict[tuple[str, int], int]:
            await trio.lowlevel.checkpoint()
            return {("orders", 0): 3}

        monkeypatch.setattr(TopicReader, "_ends", ends)
        with pytest.raises(Failed, match="partition 0, offset 2, got no record for 30 s"):
            await values(world)


async def test_following_shows_what_is_written_later(autojump_clock: MockClock) -> None:
    async with kafka_world() as world, trio.open_nursery() as nursery:
        await world.wire.create_topic("orders", 2)
        printed: list[bytes] = []
        options = ConsumeOptions("orders", "latest", follows=True, only_values=True, most=3)

        async def follow() -> None:
            await consume(world.cluster, options, appended_to(printed), is_terminal=False)
            nursery.cancel_scope.cancel()

        await world.write("orders", b"before\n")
        nursery.start_soon(follow)
        await trio.sleep(5)
        await world.write("orders", b"one\n", partition=0)
        await trio.sleep(60)
        await world.write("orders", b"two\nthree\n", partition=1)
        await trio.sleep(5)
        raise AssertionError("it must have ended")
    assert printed == [b"one\n", b"two\nthree\n"]


@pytest.mark.parametrize("follows", [True, False])
async def test_a_partition_that_cannot_be_read_ends_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, follows: bool
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1)
        options = ReadOptions(Position(PositionKind.EARLIEST), follows=follows)
        reader = TopicReader(world.cluster, "orders", options, print)

        async def no_connection(node_id: int, name: str = "") -> None:
            await trio.lowlevel.checkpoint()
            raise Refused("a broker", 7)

        async def ends(self: TopicReader, places: object) -> dict[tuple[str, int], int]:
            await trio.lowlevel.checkpoint()
            return {("orders", 0): 2}

        async def read() -> None:
            async with aclosing(reader.records()) as records:
                async for _ in records:
                    monkeypatch.setattr(world.cluster, "connection", no_connection)

        monkeypatch.setattr(TopicReader, "_ends", ends)
        await world.write("orders", b"a\n")
        began = trio.current_time()
        with pytest.raises(Failed, match="partition 0 cannot be read: a broker: REQUEST_TIMED_OUT"):
            await read()
        assert STALL_SECONDS < trio.current_time() - began < STALL_SECONDS + 5


async def test_a_reader_that_looked_long_at_records_goes_on_after_a_failure(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1)
        await world.write("orders", b"a\n")
        options = ReadOptions(Position(PositionKind.EARLIEST), follows=True)
        found: list[int] = []
        whole = world.cluster.connection

        async def closed(node_id: int, name: str = "") -> None:
            monkeypatch.setattr(world.cluster, "connection", whole)
            await trio.lowlevel.checkpoint()
            raise Disconnected("it closed")

        async with aclosing(
            TopicReader(world.cluster, "orders", options, print).records()
        ) as records:
            async for each in records:
                found += [record.offset for _, record in each]
                if len(found) == 2:
                    break
                await world.write("orders", b"b\n")
                await trio.sleep(10 * STALL_SECONDS)  # the output waits, as in a pager
                monkeypatch.setattr(world.cluster, "connection", closed)
        assert found == [0, 1]


async def test_a_failure_is_no_wait_for_records(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kafka_world() as world, trio.open_nursery() as nursery:
        await world.wire.create_topic("orders", 1)
        whole = world.cluster.connection

        async def away(node_id: int, name: str = "") -> BrokerConnection:
            if trio.current_time() < began + STALL_SECONDS - 5:
                raise Disconnected("it closed")
            return await whole(node_id, name)

        async def ends(self: TopicReader, places: object) -> dict[tuple[str, int], int]:
            await trio.lowlevel.checkpoint()
            return {("orders", 0): 1}

        async def write_later() -> None:
            await trio.sleep(STALL_SECONDS + 5)
            await world.write("orders", b"a\n")

        monkeypatch.setattr(TopicReader, "_ends", ends)
        monkeypatch.setattr(world.cluster, "connection", away)
        began = trio.current_time()
        nursery.start_soon(write_later)
        assert await values(world, start="0") == ["0:0=a"]


async def test_only_committed_records(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        topic_id = await world.wire.create_topic("orders", 1)
        await world.write("orders", b"plain\n")
        client = world.wire.connect()
        for is_committed in (True, False, True):
            producer = await init(client)
            assert await write(client, topic_id, producer, 0) == 0
            assert (await end(client, producer, committed=is_committed)).error_code == 0
        open_one = await init(client, "y")
        assert await write(client, topic_id, open_one, 0, name="y") == 0

        assert await values(world, is_committed=True) == ["0:0=plain", "0:1=v0", "0:5=v0"]
        everything = ["0:0=plain", "0:1=v0", "0:3=v0", "0:5=v0", "0:7=v0"]
        assert await values(world) == everything
