"""What a simulated reader writes into the history: by it the checker judges the gateways."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch
from tidegate_simulation import readers
from tidegate_simulation.history import History
from tidegate_simulation.readers import Reader
from tidegate_simulation.workload import Key, Workload

LOST, FULL = (Key(number, "orders", bytes(16), number) for number in range(2))


def _reader() -> Reader:
    world = SimpleNamespace(
        rng=Random,
        plan=SimpleNamespace(zones=SimpleNamespace(of_client=lambda _: "")),
        history=History(lambda: 0),
    )
    return Reader(cast(Workload, SimpleNamespace(world=world)), "reader", sessions=False)


async def test_an_answer_is_of_the_connection_it_came_over(monkeypatch: pytest.MonkeyPatch) -> None:
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
