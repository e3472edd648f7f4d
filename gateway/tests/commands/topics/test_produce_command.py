"""`tidegate topic produce`: lines as records, and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.worlds.kafka_world import kafka_world, records_of, write
from tests.worlds.scripted_broker import PROPERTIES, Asked, HangUp, ScriptedBroker
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.producer import producing
from tidegate_coordination.client.producer.input_lines import (
    BadLine,
    LineFormat,
    LineSplitter,
    shown_lines,
)
from tidegate_coordination.client.producer.partitioner import murmur2, partition_of
from tidegate_coordination.client.producer.producing import WriteOptions
from tidegate_gateway.cli.topic.produce import ProduceOptions, produce
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import decode_records, read_header
from tidegate_runtime.settings_texts import BadSource

# -- pure ------------------------------------------------------------------------------------------


def test_the_hash_is_that_of_kafka() -> None:
    # Keys and hashes of Kafka's UtilsTest.  There hashes are signed numbers.
    known = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    assert {key: murmur2(key) for key in known} == {key: n % 2**32 for key, n in known.items()}


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_another_client(key: bytes) -> None:
    assert murmur2(key) == other_murmur2(key) % 2**32
    assert partition_of(key, 7) == (other_murmur2(key) & 0x7FFFFFFF) % 7


@given(st.lists(st.binary(max_size=5), max_size=6), st.data())
def test_pieces_of_any_length_give_the_same_lines(parts: list[bytes], data: Any) -> None:
    whole = b"\n".join(part.replace(b"\n", b"").replace(b"\r", b"") for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    splitter = LineSplitter(LineFormat())
    found = [
        record.value
        for first, last in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for record in splitter.receive(whole[first:last])
    ]
    found += [record.value for record in splitter.end()]
    expected = whole.split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])


def test_keys_nulls_and_line_ends() -> None:
    splitter = LineSplitter(LineFormat(b"=>", b"NULL"))
    found = [*splitter.receive(b"a=>1\r\n=>\nNULL=>x=>y\nb=>NULL"), *splitter.end()]
    assert [tuple(each) for each in found] == [
        (1, b"a", b"1"),
        (2, b"", b""),
        (3, None, b"x=>y"),
        (4, b"b", None),
    ]
    with pytest.raises(BadLine, match="line 5 has no key separator '=>'"):
        list(splitter.receive(b"oops\n"))


def test_a_line_without_end_is_bounded() -> None:
    splitter = LineSplitter(LineFormat(), max_line_bytes=10)
    assert list(splitter.receive(b"ok\n1234567890")) != []
    with pytest.raises(BadLine, match="line 2 is longer than 10 bytes"):
        list(splitter.receive(b"1"))


def test_line_numbers_are_shown_in_stretches() -> None:
    assert shown_lines([3]) == "3"
    assert shown_lines([1, 2, 3, 7]) == "1 to 3 and 7"
    assert shown_lines([1, 3, 5, 6], most=2) == "1, 3 and 2 more"


def test_headers_may_have_any_bytes() -> None:
    options = ProduceOptions("t", headers=("\udcfe=\udcff",)).write_options()
    assert options.headers == (("\udcfe", b"\xff"),)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ProduceOptions("t", key_separator=""), "--key-separator is empty"),
        (ProduceOptions("t", headers=("a",)), "--header a is not NAME=VALUE"),
    ],
)
def test_options_that_make_no_sense(options: ProduceOptions, said: str) -> None:
    with pytest.raises(BadSource, match=said):
        (options.line_format(), options.write_options())


# -- a gateway -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
async def test_keys_choose_partitions(autojump_clock: MockClock, codec: Codec) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 4)
        text = b"".join(b"k%d:%d\n" % (number % 9, number) for number in range(500))
        written = await world.write("orders", text, codec=codec)
        assert (written.acknowledged, written.missing, written.problem) == (500, [], "")
        client = world.wire.connect()
        for partition in range(4):
            expected = [
                b"%d" % number
                for number in range(500)
                if partition_of(b"k%d" % (number % 9), 4) == partition
            ]
            assert await client.fetch_values("orders", partition, 0) == expected
            assert written.by_partition.get(partition, 0) == len(expected)


async def test_a_topic_is_made_where_the_cluster_does_that(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        assert (await world.write("greetings", b"hello\n")).acknowledged == 1
    async with kafka_world(auto_create_topics_enable="false") as world:
        with pytest.raises(Failed, match="there is no topic greetings, and the cluster"):
            await world.write("greetings", b"hello\n")


async def test_a_partition_that_is_not_there(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 2)
        with pytest.raises(Failed, match="orders has 2 partitions, from 0 on: there is no 2"):
            await world.write("orders", b"hello\n", partition=2)


async def test_memory_is_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "BUFFER_BYTES", 10_000)
    most = 0

    async with kafka_world() as world:
        await world.wire.create_topic("orders", 3)
        options = WriteOptions()
        writer = producing.TopicWriter(
            world.cluster, "orders", options, rng=Random(1), now_ms=lambda: 1
        )
        await writer.open()

        def watched() -> Iterator[bytes]:
            nonlocal most
            for number in range(200):
                most = max(most, writer.held_bytes)
                yield b"x" * 900 + b"%d\n" % number

        await writer.write(records_of_each(watched()))
        assert writer.written.acknowledged == 200
    assert 5_000 < most <= 10_000


async def records_of_each(pieces: Iterator[bytes]) -> Any:
    splitter = LineSplitter(LineFormat())
    for each in pieces:
        yield splitter.receive(each)


async def test_the_line_that_is_refused_is_named(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 1, max_message_bytes="300")
        text = b"".join(b"%d\n" % each for each in range(1, 100)) + b"x" * 400 + b"\nlast\n"
        lines = records_of([text])
        options = ProduceOptions("orders")
        code = await produce(world.cluster, options, lines, as_json=False, seconds=world.seconds)
        told = capsys.readouterr()
        assert (code, told.out) == (1, "99 records were acknowledged\n")
        first, second = told.err.splitlines()
        assert first.startswith("tidegate: line 100 was not written: ")
        assert "RECORD_TOO_LARGE" in first or "MESSAGE_TOO_LARGE (10)" in first
        assert second == "not acknowledged: lines 100 to 101"
        assert len(await world.wire.connect().fetch_values("orders", 0, 0)) == 99


async def test_a_bad_line_ends_the_work(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        lines = records_of([b"a:1\nb:2\noops\nc:3\n"])
        code = await produce(
            world.cluster, ProduceOptions("t"), lines, as_json=True, seconds=world.seconds
        )
        assert code == 1
        assert json.loads(capsys.readouterr().out) == {
            "acknowledged": 2,
            "partitions": {"0": 2},
            "not_acknowledged": 0,
            "lines_not_acknowledged": [],
            "last_line_read": 2,
            "problem": "line 3 has no key separator ':'",
        }


# -- a broker that fails ---------------------------------------------------------------------------

Answer = Callable[[Asked], Any]


@asynccontextmanager
async def failing(*answers: Answer, ids: int = 0) -> Any:
    """A broker with topic t.  answers: its next answers to Produce; later answers have no error.

    ids: the error code of InitProducerId.
    """
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery)
        left = list(answers)
        broker.answers["Metadata"] = lambda asked: me.MetadataResponse(
            brokers=[me.MetadataResponseBroker(1, "broker-1", 9092)],
            topics=[
                me.MetadataResponseTopic(
                    0, each.name, partitions=[me.MetadataResponsePartition(0, 0, 1)]
                )
                for each in asked.request.topics
            ],
        )
        broker.answers["InitProducerId"] = lambda asked: ip.InitProducerIdResponse(
            error_code=ids, producer_id=7, producer_epoch=0
        )
        broker.answers["Produce"] = lambda asked: (left.pop(0) if left else coded(0))(asked)
        cluster = ClassicCluster(nursery, broker.dial, PROPERTIES, rng=Random(1))
        await cluster.refresh([])
        yield broker, cluster
        nursery.cancel_scope.cancel()


def coded(code: int, message: str | None = None, record: int | None = None) -> Answer:
    """Answer with an error code."""
    errors = [] if record is None else [pr.BatchIndexAndErrorMessage(record, "bad")]

    def answer(asked: Asked) -> pr.ProduceResponse:
        part = pr.PartitionProduceResponse(0, code, record_errors=errors, error_message=message)
        return pr.ProduceResponse([pr.TopicProduceResponse("t", partition_responses=[part])])

    return answer


def hang_up(asked: Asked) -> None:
    raise HangUp


def sent(broker: ScriptedBroker) -> list[bytes]:
    return [
        bytes(each.request.topic_data[0].partition_data[0].records)
        for each in broker.asked
        if each.name == "Produce"
    ]


@pytest.mark.parametrize(
    "answer",
    [hang_up, coded(ErrorCode.NOT_LEADER_OR_FOLLOWER), coded(ErrorCode.NOT_ENOUGH_REPLICAS)],
)
async def test_what_passes_is_sent_again_as_it_was(
    autojump_clock: MockClock, answer: Answer
) -> None:
    async with failing(answer, answer, coded(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)) as (
        broker,
        cluster,
    ):
        written = await write(cluster, "t", [b"one\ntwo\n", b"three\n"], WriteOptions())
        assert (written.acknowledged, written.problem) == (3, "")
        first = sent(broker)[0]
        assert sent(broker)[:3] == [first] * 3
        assert read_header(first)[-4:] == (7, 0, 0, read_header(first).record_count)


async def test_sequences_go_on(autojump_clock: MockClock) -> None:
    async with failing() as (broker, cluster):
        text = [b"x" * 300_000 + b"\n"] * 5
        assert (await write(cluster, "t", text, WriteOptions())).acknowledged == 5
        headers = [read_header(each) for each in sent(broker)]
        at = 0
        for each in headers:
            assert each.base_sequence == at
            at += each.record_count
        assert at == 5
        assert len(headers) > 1


async def test_a_batch_that_is_too_large_is_halved(autojump_clock: MockClock) -> None:
    too_large = coded(ErrorCode.MESSAGE_TOO_LARGE)
    async with failing(too_large, too_large) as (broker, cluster):
        written = await write(cluster, "t", [b"1\n2\n3\n4\n5\n"], WriteOptions())
        assert (written.acknowledged, written.problem) == (5, "")
        values = [[r.value for r in decoded(each)] for each in sent(broker)]
        assert values[0] == [b"1", b"2", b"3", b"4", b"5"]
        assert values[1:3] == [[b"1", b"2"], [b"1"]]
        assert [each for batch in values[2:] for each in batch] == values[0]


def decoded(batch: bytes) -> Any:
    return decode_records(batch, max_decompressed_bytes=1 << 20)


async def test_the_record_that_the_broker_names_is_named(autojump_clock: MockClock) -> None:
    async with failing(coded(ErrorCode.INVALID_RECORD, "no key", 1)) as (_, cluster):
        written = await write(cluster, "t", [b"1\n2\n3\n"], WriteOptions())
        assert written.problem.startswith("line 2 was not written: partition 0: INVALID_RECORD")
        assert written.problem.endswith("INVALID_RECORD (87). bad")
        assert (written.acknowledged, written.missing, written.last_line) == (0, [1, 2, 3], 3)


async def test_a_line_that_waits_for_room_is_missing_too(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "BUFFER_BYTES", 500)
    async with failing(coded(ErrorCode.INVALID_RECORD)) as (_, cluster):
        written = await write(cluster, "t", [b"%d\n" % n for n in range(20)], WriteOptions())
        assert 2 < written.last_line < 20
        assert written.missing == list(range(1, written.last_line + 1))


async def test_it_is_not_sent_for_ever(autojump_clock: MockClock) -> None:
    async with failing(*[coded(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000) as (broker, cluster):
        began = trio.current_time()
        written = await write(cluster, "t", [b"1\n"], WriteOptions())
        assert 120 <= trio.current_time() - began < 130
        assert written.problem.startswith("line 1 was not written: not within 120 s: partition 0")
        assert 100 < len(sent(broker)) < 200


@pytest.mark.parametrize("first", [hang_up, coded(ErrorCode.REQUEST_TIMED_OUT)])
@pytest.mark.parametrize(
    "then", [coded(ErrorCode.NOT_ENOUGH_REPLICAS), coded(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
async def test_what_may_have_been_written_is_not_called_unwritten(
    autojump_clock: MockClock, first: Answer, then: Answer
) -> None:
    async with failing(first, *[then] * 1000) as (_, cluster):
        written = await write(cluster, "t", [b"1\n2\n"], WriteOptions())
        assert written.problem.startswith("line 1 was not acknowledged: ")
        assert written.problem.endswith("; it may have been written")
        assert (written.acknowledged, written.missing) == (0, [1, 2])


async def test_a_doubt_ends_with_its_batch(autojump_clock: MockClock) -> None:
    async with failing(hang_up, coded(0), coded(ErrorCode.INVALID_RECORD)) as (broker, cluster):
        written = await write(cluster, "t", [b"1\n", b"x" * 600_000 + b"\n"], WriteOptions())
        assert len(sent(broker)) == 3
        assert written.problem.startswith("line 2 was not written: ")


async def test_without_a_producer_id_an_unknown_outcome_is_told(autojump_clock: MockClock) -> None:
    async with failing(hang_up, ids=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) as (broker, cluster):
        written = await write(cluster, "t", [b"1\n"], WriteOptions())
        assert written.problem.endswith("it may have been written")
        assert [read_header(each).producer_id for each in sent(broker)] == [-1]


async def test_a_name_that_the_cluster_does_not_serve_yet_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    answers = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0])
    async with failing() as (broker, cluster):
        broker.answers["InitProducerId"] = lambda asked: ip.InitProducerIdResponse(
            error_code=next(answers), producer_id=9, producer_epoch=0
        )
        assert (await write(cluster, "t", [b"1\n"], WriteOptions())).acknowledged == 1
        assert [read_header(each).producer_id for each in sent(broker)] == [9]
