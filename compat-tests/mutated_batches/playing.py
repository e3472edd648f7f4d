"""All cases on one broker over TCP."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import trio
from transactions.differential.wire import Caller, Request, connect

from mutated_batches.asking import CLOSED, Facts, ask
from mutated_batches.cases import TOPICS, Case, partitions_of
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import metadata as md

AT_ONCE: Final = 6
SETTINGS: Final = {"auto.create.topics.enable": "false", "message.max.bytes": "1048588"}
READY_SECONDS: Final = 120
SILENCE: Final[Facts] = {"code": "silence"}
SILENCE_SECONDS: Final = 10
_PAUSE_SECONDS: Final = 0.25


async def create_topics(caller: Caller) -> None:
    """Create the topics, with a partition for each case."""
    for name, configs in TOPICS.items():
        entries = [ct.CreatableTopicConfig(key, value) for key, value in configs.items()]
        topic = ct.CreatableTopic(name, partitions_of(name), 1, configs=entries)
        answer = await caller.call(
            Request("CreateTopics", 7, ct.CreateTopicsRequest([topic], 60_000))
        )
        [row] = answer.topics
        if row.error_code:
            raise RuntimeError(f"topic {name}: {row.error_code} {row.error_message}")


async def _wait_for_leaders(caller: Caller) -> None:
    request = md.MetadataRequest([md.MetadataRequestTopic(name=each) for each in TOPICS])
    with trio.fail_after(READY_SECONDS):
        while True:
            answer = await caller.call(Request("Metadata", 9, request))
            rows = [each for topic in answer.topics for each in topic.partitions]
            if len(rows) == sum(map(partitions_of, TOPICS)) and all(
                each.leader_id >= 0 and not each.error_code for each in rows
            ):
                return
            await trio.sleep(_PAUSE_SECONDS)


async def play(bootstrap: str, cases: Sequence[Case]) -> dict[int, Facts]:
    """Return the facts of each case."""
    line = await connect(bootstrap)
    await create_topics(line)
    await _wait_for_leaders(line)
    found: dict[int, Facts] = {}
    left = iter(cases)
    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(_play_some, bootstrap, left, found)
    return dict(sorted(found.items()))


async def _play_some(bootstrap: str, left: Iterator[Case], found: dict[int, Facts]) -> None:
    line = await connect(bootstrap)
    for case in left:
        found[case.number] = SILENCE
        with trio.move_on_after(SILENCE_SECONDS):
            found[case.number] = await ask(case, line, time.time_ns() // 1_000_000)
        if found[case.number] in (CLOSED, SILENCE):
            line = await connect(bootstrap)
    await line.close()
