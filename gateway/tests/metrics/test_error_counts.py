"""Errors in answers are counted wherever Kafka's messages have a code."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

import tidegate_protocol.messages as messages
from tidegate_gateway.counting.error_counts import (
    ELEMENTS_A_STEP,
    ErrorCounts,
    _places,
    error_name,
)
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import produce as pr


def responses() -> list[type[Any]]:
    modules = [
        import_module(f"tidegate_protocol.messages.{each.name}")
        for each in iter_modules(messages.__path__)
    ]
    names = {f"{facts.name}Response" for facts in APIS.values()}
    return [each for module in modules for name, each in vars(module).items() if name in names]


@pytest.mark.parametrize("kind", responses(), ids=lambda each: each.__name__)
def test_each_response_has_a_code_somewhere(kind: type[Any]) -> None:
    assert _places(kind) is not None


def test_codes_are_found_at_all_depths() -> None:
    counts = ErrorCounts()
    partitions = [me.MetadataResponsePartition(each) for each in (E.NONE, E.LEADER_NOT_AVAILABLE)]
    topics = [
        me.MetadataResponseTopic(E.NONE, "a", partitions=partitions),
        me.MetadataResponseTopic(E.UNKNOWN_TOPIC_OR_PARTITION, "b"),
    ]
    counts.note(ApiKey.METADATA, me.MetadataResponse(topics=topics, error_code=E.NOT_CONTROLLER))
    group = of.OffsetFetchResponseGroup("g", [], E.NOT_COORDINATOR)
    counts.note(ApiKey.OFFSET_FETCH, of.OffsetFetchResponse(groups=[group, group]))
    counts.note(ApiKey.PRODUCE, pr.ProduceResponse())
    assert counts.by_code == {
        (ApiKey.METADATA, E.LEADER_NOT_AVAILABLE): 1,
        (ApiKey.METADATA, E.UNKNOWN_TOPIC_OR_PARTITION): 1,
        (ApiKey.METADATA, E.NOT_CONTROLLER): 1,
        (ApiKey.OFFSET_FETCH, E.NOT_COORDINATOR): 2,
    }


def work() -> Generator[int, None, str]:
    yield 1
    return "encoded"


def test_a_long_answer_is_counted_in_steps() -> None:
    counts = ErrorCounts()
    topics = [me.MetadataResponseTopic(E.INVALID_TOPIC_EXCEPTION, "a") for _ in range(1_000)]
    steps = counted = 0
    for _ in counts.noted(ApiKey.METADATA, me.MetadataResponse(topics=topics), work()):
        steps += 1
        assert counts.by_code.total() - counted <= ELEMENTS_A_STEP
        counted = counts.by_code.total()
    assert steps == 1_001 // ELEMENTS_A_STEP + 1
    assert counted == 1_000


def test_the_answer_of_the_work_is_returned() -> None:
    def driven() -> Generator[int]:
        found.append((yield from ErrorCounts().noted(ApiKey.PRODUCE, pr.ProduceResponse(), work())))

    found: list[str] = []
    assert list(driven()) == [1]
    assert found == ["encoded"]


def test_names() -> None:
    assert error_name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(31_000) == "ERROR_31000"
