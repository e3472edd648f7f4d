"""The simulator's model of a classic broker against Apache Kafka, which is right by definition.

Random scripts of requests are played on both.  Codes, offsets and fetched bytes must be the same.
TIDEGATE_SCRIPTS sets the number of scripts (30), TIDEGATE_SCRIPT_SEED the first seed.
TIDEGATE_KAFKA is the host:port of an Apache Kafka that already runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from harness.broker import running
from model_oracle.seen import seen, without_times
from model_oracle.sides import KafkaSide, ModelSide, both_sides
from model_oracle.steps import Call, Drawer, Expire, InSession, Mark, Step, WriteInTransaction

from tidegate_protocol.batches import HEADER_BYTES
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.messages import api_versions as av
from tidegate_simulation.classic.profiles import SERVED

SCRIPTS = int(os.environ.get("TIDEGATE_SCRIPTS", "30"))
FIRST_SEED = int(os.environ.get("TIDEGATE_SCRIPT_SEED", "1"))
STEPS = 30
SHOWN = 60
CLOCKS_MS = 100_000
TICK_SECONDS = 0.002
"""Between steps, so that no two of them get the same millisecond on one side only."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "3600000",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """An Apache Kafka for the tests of this module."""
    with running(os.environ.get("TIDEGATE_KAFKA", "kafka"), SETTINGS) as broker:
        yield broker.bootstrap


def differences(step: Step, real: Any, model: Any) -> list[str]:
    """Return the differences between two answers, as texts."""
    ours, theirs = seen(model), seen(real)
    paths = dict.fromkeys([*theirs, *ours])
    return [
        f"{path}: Kafka {str(theirs.get(path))[:300]}, model {str(ours.get(path))[:300]}"
        for path in paths
        if not agree(path, theirs.get(path, "-"), ours.get(path, "-"))
    ]


def agree(path: str, real: Any, model: Any) -> bool:
    """Return whether two values are the same; times that brokers set need only be close."""
    if path.endswith(".timestamp") and isinstance(real, int) and isinstance(model, int):
        return abs(real - model) < CLOCKS_MS
    return bool(real == model)


async def play(seed: int, real: KafkaSide, model: ModelSide) -> list[str]:
    """Play one script until a write differs; return the differences."""
    topic = f"script-{seed}-{time.time_ns()}"
    lines: list[str] = []
    await real.start(topic)
    await model.start(topic)
    for number, step in enumerate(Drawer(seed, int(time.time() * 1000)).script(STEPS)):
        theirs = await real.carry_out(step)
        ours = await model.carry_out(step)
        await trio.sleep(TICK_SECONDS)
        found = differences(step, theirs, ours)
        if found:
            lines += [f"script {seed}, step {number}, {shown(step)}:", *found]
            if isinstance(step, Expire | Mark | WriteInTransaction) or shown(step)[:7] == "Produce":
                break
    return lines


def shown(step: Step) -> str:
    """Return a short text of a step."""
    return (
        f"{step.api} {step.version} {str(step.body)[:700]}" if isinstance(step, Call) else str(step)
    )


async def test_the_model_answers_as_kafka_does(kafka: str) -> None:
    lines: list[str] = []
    async with both_sides(kafka, int(time.time() * 1000)) as (real, model):
        for seed in range(FIRST_SEED, FIRST_SEED + SCRIPTS):
            lines += await play(seed, real, model)
            await trio.lowlevel.checkpoint()
    assert not lines, "\n".join(lines[:SHOWN])


async def test_the_model_announces_what_kafka_does(kafka: str) -> None:
    async with both_sides(kafka, int(time.time() * 1000)) as (real, model):
        request = av.ApiVersionsRequest("oracle", "1")
        theirs, ours = [await side.call(Call("ApiVersions", 4, request)) for side in (real, model)]
    assert versions(ours) == {key: each for key, each in versions(theirs).items() if key in SERVED}
    assert features(ours) == features(theirs)


def versions(answer: av.ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Return first and last version by key."""
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def features(answer: av.ApiVersionsResponse) -> set[str]:
    """Return supported and finalized features."""
    return {str(each) for each in (*answer.supported_features, *answer.finalized_features)}


def test_a_script_is_always_the_same_and_scripts_have_all_kinds() -> None:
    scripts = [Drawer(each, 1_700_000_000_000).script(STEPS) for each in range(30)]
    assert scripts == [Drawer(each, 1_700_000_000_000).script(STEPS) for each in range(30)]
    steps = [step for script in scripts for step in script]
    apis = {step.api for step in steps if isinstance(step, Call)}
    assert len(apis) == 10
    assert {type(each) for each in steps} == {Call, Expire, Mark, WriteInTransaction, InSession}


def test_times_of_the_broker_are_left_out() -> None:
    markers = [
        control_batch(
            base_offset=0,
            leader_epoch=0,
            timestamp_ms=each,
            producer_id=1,
            producer_epoch=0,
            committed=True,
        )
        for each in (5, 6)
    ]
    assert without_times(markers[0]) == without_times(markers[1])
    assert len(without_times(markers[0][: HEADER_BYTES + 3])) == HEADER_BYTES + 3
