"""python -m tidegate_bench.brokers.committer SPEC: a gateway that commits objects without bytes.

It measures only the coordinator and its log: no client, no bytes.  It starts as any gateway does,
prints "ready", waits for a line, commits, and prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.opening import opened, serve_peers
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.collector import calm_collector

TOPIC: Final = "commits"
TOPIC_ID: Final = b"commits" + bytes(9)
SLICE_BYTES: Final = 16_384
RECORDS: Final = 16
LOOK_SECONDS: Final = 0.05
TOPIC_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Spec:
    """Commit `flushes` objects, one in each `every_seconds`, with a slice of `slices` partitions.

    number: of this gateway, from 0 on; the first one creates the topic.
    """

    number: int
    settings: dict[str, str]
    partitions: int
    slices: int
    flushes: int
    every_seconds: float


@dataclass(slots=True)
class Told:
    """The result; seconds: from a proposal to its answer."""

    seconds: list[float] = field(default_factory=list[float])
    failed: int = 0
    lost_races: int = 0
    cpu_seconds: float = 0.0


def main() -> None:
    """Run the specification in the first argument."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    told = trio.run(_commit_all, Spec(**json.loads(sys.argv[1])))
    print(json.dumps(asdict(told)), flush=True)


async def _commit_all(spec: Spec) -> Told:
    settings = BrokerSettings(spec.settings)
    async with (
        opened(settings, None, _no_signals()) as parts,
        trio.open_nursery() as nursery,
    ):
        assert parts is not None, "no signal was sent"
        gateway = await parts.builder.start(nursery)
        if parts.peer is not None:
            parts.peer.listen()
            nursery.start_soon(serve_peers, gateway, parts.peer)
        coordinator = gateway.coordinator
        await _topic(coordinator, spec)
        calm_collector()
        print("ready", flush=True)
        if not await trio.to_thread.run_sync(sys.stdin.readline):
            sys.exit(1)  # the parent process has ended
        told = await _flushed(coordinator, spec)
        # Other gateways may still ask this one to append for them.
        print("done", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        nursery.cancel_scope.cancel()
    return told


async def _no_signals() -> AsyncGenerator[int, None]:
    await trio.sleep_forever()
    yield 0


async def _topic(coordinator: Coordinator, spec: Spec) -> None:
    if spec.number == 0:
        await coordinator.propose(CreateTopics([NewTopic(TOPIC_ID, TOPIC, spec.partitions, 1)]))
    with trio.fail_after(TOPIC_SECONDS):
        while TOPIC_ID not in coordinator.state.topics.by_id:  # noqa: ASYNC110 - no event reports it
            await trio.sleep(LOOK_SECONDS)


async def _flushed(coordinator: Coordinator, spec: Spec) -> Told:
    """Commit at a random moment of each period, whether or not the former commit is done.

    PUTs, which precede commits, take different times.  At fixed moments the same gateways would
    always collide, or never.
    """
    told = Told()
    rng = Random(spec.number)
    races, cpu = coordinator.lost_conflicts, time.process_time()
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        for counter in range(spec.flushes):
            await trio.sleep_until(begin + (counter + rng.random()) * spec.every_seconds)
            proposal = _proposal(coordinator, spec, rng, counter)
            nursery.start_soon(_commit, coordinator, proposal, told)
    told.lost_races = coordinator.lost_conflicts - races
    told.cpu_seconds = time.process_time() - cpu
    return told


async def _commit(coordinator: Coordinator, proposal: CommitWal, told: Told) -> None:
    begun = time.perf_counter()
    try:
        outcomes = await coordinator.propose(proposal)
    except CoordinatorUnavailable:
        told.failed += 1
        return
    told.seconds.append(time.perf_counter() - begun)
    told.failed += any(each.refusal is not None for each in outcomes)


def _proposal(coordinator: Coordinator, spec: Spec, rng: Random, counter: int) -> CommitWal:
    now_ms = int(time.time() * 1000)
    batches = [
        BatchFacts(
            TOPIC_ID,
            partition,
            place * SLICE_BYTES,
            SLICE_BYTES,
            RECORDS,
            now_ms,
            counter,
            -1,
            -1,
            -1,
            -1,
        )
        for place, partition in enumerate(sorted(rng.sample(range(spec.partitions), spec.slices)))
    ]
    name = WalName(coordinator.incarnation, counter)
    return CommitWal(name, SLICE_BYTES * spec.slices, batches)


if __name__ == "__main__":
    main()
