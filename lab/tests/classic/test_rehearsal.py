"""`tidegate link plan --rehearse`: what it reads, what it names, what it estimates."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_gateway.cli.link.rehearsed import (
    Rehearsed,
    rehearsal_of,
    rehearsed_dict,
    rehearsed_text,
)
from tidegate_gateway.migration.survey import rehearsal
from tidegate_gateway.migration.survey.estimates import (
    Measured,
    Problem,
    estimate,
    stall_seconds,
    switch_problem,
    time_problems,
)
from tidegate_gateway.migration.survey.looking import Candidate
from tidegate_gateway.migration.survey.rehearsal import TopicRead
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import CRC_POSITION, MAGIC_POSITION, TRANSACTIONAL
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.records import Record, build_batch
from tidegate_simulation.classic.answers.fetch import answer_fetch
from tidegate_simulation.classic.broker_state import Asked
from tidegate_simulation.classic.model_broker import _APIS  # pyright: ignore[reportPrivateUsage]

from .test_link_commands import client_of
from .test_mirrors import NOW_MS, World, mirroring

MIB = 1 << 20
TOPIC = Candidate("t", 2, 3, 8 * MIB, "", is_mirrored=False)
MEASURED = Measured(4 * MIB, 2.0, 0.01, 0.02, 0.005)


@asynccontextmanager
async def known_topics(world: World) -> AsyncIterator[ClassicCluster]:
    async with client_of(world.servers) as source:
        await source.refresh()
        yield source


async def rehearsed(world: World, topic: Candidate = TOPIC) -> Rehearsed:
    async with known_topics(world) as source:
        return await rehearsal_of(source, [topic], 50.0, 0.005)


async def test_the_partition_with_the_most_offsets_is_read(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        world.write(2, index=1)
        world.write(5, index=1)
        done = await rehearsed(world)
        size = sum(len(each.raw) for each in world.log(1).batches)
        assert done.found.reads == [TopicRead("t", 1, size, 2, "")]
        assert done.problems == []
        state = world.gateways[0].gateway.coordinator.state
        assert not state.links.by_name
        assert not state.topics.by_name


async def test_no_more_is_read_than_a_bound(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        for _ in range(9):
            world.write(3)
        size = len(world.log().batches[0].raw)
        monkeypatch.setattr(rehearsal, "READ_BYTES", 3 * size)
        assert (await rehearsed(world)).found.read_bytes == 3 * size
        monkeypatch.setattr(rehearsal, "READ_BYTES", 1)
        assert (await rehearsed(world)).found.read_bytes == size


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (CRC_POSITION, "the CRC of the batch is wrong"),
        (MAGIC_POSITION, "from before Kafka 0.11, cannot be mirrored"),
    ],
)
async def test_batches_that_cannot_be_mirrored_are_named(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, position: int, text: str
) -> None:
    async with mirroring() as world:
        world.write(3)

        async def damaged(asked: Asked, request: fe.FetchRequest) -> fe.FetchResponse:
            response = await answer_fetch(asked, request)
            for topic in response.responses:
                for each in topic.partitions:
                    records = bytearray(cast("bytes", each.records or b""))
                    if records:
                        records[position] ^= 2
                        each.records = memoryview(bytes(records))
            return response

        monkeypatch.setitem(_APIS, ApiKey.FETCH, _APIS[ApiKey.FETCH]._replace(answer=damaged))
        [problem] = (await rehearsed(world)).problems
        assert problem.topic == "t"
        assert "partition 0: offset 0" in problem.text
        assert text in problem.text


async def test_an_open_transaction_is_named(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(2)
        records = [Record(0, NOW_MS, None, b"v")]
        world.write_raw(
            build_batch(
                records, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0
            )
        )
        [problem] = (await rehearsed(world)).problems
        assert "partition 0: a transaction is open since offset 2" in problem.text
        world.mark(7, committed=True)
        assert (await rehearsed(world)).problems == []


async def test_configs_that_lose_records_are_named(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        configs = {"unclean.leader.election.enable": "true", "cleanup.policy": "compact"}
        world.source.set_configs("t", {**configs, "delete.retention.ms": "10"}, trio.current_time())
        await trio.sleep(5)
        texts = [each.text for each in (await rehearsed(world)).problems]
        assert len(texts) == 2
        assert "unclean.leader.election.enable is true" in texts[0]
        assert "delete.retention.ms=10, less than the copy's time" in texts[1]


def test_a_copy_takes_its_size_at_the_measured_rate() -> None:
    done = estimate([60 * MIB, 60 * MIB + 1], MEASURED, 50.0)
    assert (done.is_measured, done.mib_per_second, done.objects) == (True, 2.0, 16)
    assert done.copy_seconds == pytest.approx(60)
    little = estimate([100 * MIB], Measured(10, 0.1, 0.0, 0.0, 0.0), 50.0)
    assert (little.is_measured, little.copy_seconds) == (False, 2.0)
    unknown = estimate([MIB, None], MEASURED, 50.0)
    assert (unknown.size_bytes, unknown.copy_seconds, unknown.objects) == (None, None, None)


def test_a_stall_grows_with_the_answers_of_the_source() -> None:
    assert stall_seconds(MEASURED) == pytest.approx(0.47)
    assert switch_problem(0.47) == ""
    assert "switch in parts" in switch_problem(stall_seconds(Measured(0, 0, 0.7, 0.4, 0.01)))


def test_configs_that_outrun_a_copy() -> None:
    configs = {
        "both": {
            "cleanup.policy": "compact,delete",
            "retention.ms": "9",
            "delete.retention.ms": "8",
        },
        "kept": {"retention.ms": "-1"},
        "default": {},
    }
    found = time_problems(configs, 1.0)
    assert [each.topic for each in found] == ["both", "both"]
    assert time_problems(configs, 0.001) == []
    assert [each.topic for each in time_problems(configs, 700_000.0)] == ["both", "both", "default"]


def rehearsal_with(problems: list[Problem]) -> Rehearsed:
    reads = [TopicRead("t", 0, 4 * MIB, 7, "")]
    found = rehearsal.Rehearsal(reads, 2.0, 0.01, 0.02, {}, problems)
    return Rehearsed(found, estimate([8 * MIB], MEASURED, 50.0), problems)


def test_what_is_printed() -> None:
    shown = rehearsed_text(rehearsal_with([Problem("t\x1b", "it is odd")]))
    assert "Read 4.0 MiB, of one partition of each topic, in 2.00 s" in shown
    assert "the CRCs of 7 batches are right" in shown
    assert "Copy: 8 MiB at 2 MiB/s: about 0.1 min, and 1 requests" in shown
    assert "about 0.47 s without writes" in shown
    assert "PROBLEM t\\x1b: it is odd" in shown
    many = rehearsed_text(rehearsal_with([Problem("t", "odd")] * 53))
    assert "and 3 more" in many


def test_what_scripts_get() -> None:
    told = json.loads(json.dumps(rehearsed_dict(rehearsal_with([Problem("t", "it is odd")]))))
    assert told["problems"] == [{"topic": "t", "text": "it is odd"}]
    assert told["reads"][0]["batches"] == 7
    assert (told["objects"], told["switch_problem"]) == (1, None)
