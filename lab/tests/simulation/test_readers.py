"""The history of a simulated reader: the checker judges the gateways by it."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch
from tidegate_simulation.checks.history import History
from tidegate_simulation.clients import final_readers, readers
from tidegate_simulation.clients.final_readers import FinalReader, read_to_the_end
from tidegate_simulation.clients.readers import Reader
from tidegate_simulation.clients.workload import Key, Workload

LOST, FULL = (Key(number, "orders", bytes(16), number) for number in range(2))


def _workload() -> Workload:
    world = SimpleNamespace(
        rng=Random,
        plan=SimpleNamespace(zones=SimpleNamespace(of_client=lambda _: "")),
        history=History(lambda: 0),
    )
    return cast(Workload, SimpleNamespace(world=world, keys=[LOST, FULL], first_offset=0))


def _reader() -> Reader:
    return Reader(_workload(), "reader", sessions=False)


async def test_an_answer_belongs_to_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _reader()
    reader.assign({LOST: 5, FULL: 0})
    parts = [
        fetch.PartitionData(LOST.partition, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        fetch.PartitionData(FULL.partition, ErrorCode.NONE, 7, records=b""),
    ]
    topic = fetch.FetchableTopicResponse(LOST.topic, LOST.topic_id, parts)

    async def call(*_: object, **__: object) -> Any:
        reader.client.link = 1
        return fetch.FetchResponse(0, responses=[topic])

    async def ask_low(*_: object) -> None:
        reader.client.link += 1  # its connection was lost

    monkeypatch.setattr(reader.client, "call", call)
    monkeypatch.setattr(readers, "ask_low", ask_low)
    with trio.fail_after(60):
        await reader.poll()
    (answer,) = (each for each in reader.history.events if (each.f, each.type) == ("poll", "ok"))
    assert answer.value is not None
    assert answer.value["link"] == 1


@pytest.mark.parametrize(("a_record_seconds", "is_read"), [(200.0, True), (300.0, False)])
async def test_the_final_readers_have_time_while_they_make_progress(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    a_record_seconds: float,
    is_read: bool,
) -> None:
    async def poll(reader: FinalReader) -> None:
        await trio.sleep(a_record_seconds)
        for key in reader.positions:
            reader.positions[key] += 1

    async def end_of(*_: object) -> int:
        return 3

    monkeypatch.setattr(FinalReader, "poll", poll)
    monkeypatch.setattr(final_readers, "list_one", end_of)
    assert await read_to_the_end(_workload(), patience_seconds=240.0) == is_read
