"""How long a gateway with much state takes from kill -9 to serving, the groups' claims included.

    compat-tests/run restart --slices 100000

The program writes a log as a busy gateway leaves it, and starts a gateway on it.  Then it kills the
gateway and starts it again, several times.  It measures the time until the gateway answers
ApiVersions, and until it answers a committed offset of a group whose claim it held.  With
`--snapshot` the gateway begins from a snapshot instead of from the entries.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trio
from confluent_kafka import Consumer, TopicPartition
from harness.broker import LocalBroker
from harness.places import ROOT, WORK
from harness.probe import answers
from harness.process import StartFailed, free_ports, spawn, tail
from runner.options import option
from runner.result import Result

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.logs.sqlite.log import open_file
from tidegate_coordination.state.cluster import ClusterState

KEY = "restart"
TOPIC = "slices"
TOPIC_ID = b"t" * 16
GROUP_OFFSET = 7
RUNS_AN_ENTRY = 200
START_MS = int(time.time() * 1000)
SERVING_SECONDS = 60.0


@dataclass(frozen=True)
class Options:
    """The options."""

    slices: int = 100_000
    partitions: int = 1_000
    groups: int = 100
    lives: int = 7
    snapshot: bool = option(False, "begin from a snapshot")


def entries(slices: int, partitions: int, groups: int) -> Iterator[bytes]:
    """Yield entries: a cluster, a topic, groups with claims and offsets.

    Each later entry has one WAL object.
    """
    yield _entry(
        ev.ClusterCreated("restartrestartrestartA", timeline=1),
        ev.GatewayRegistered(1, 1, KEY, "default", (), "0", supersedes=0),
        writer=0,
    )
    yield _entry(ev.TopicCreated(TOPIC_ID, TOPIC, partitions, 1, {}))
    for number in range(groups):
        offset = gev.CommittedOffset(TOPIC_ID, 0, GROUP_OFFSET, -1, "", START_MS)
        yield _entry(
            ev.ClaimTaken(f"group/group-{number}", 1, 1),
            gev.OffsetsCommitted(f"group-{number}", 1, (offset,)),
        )
    next_offsets = [0] * partitions
    for counter in range(slices // RUNS_AN_ENTRY):
        runs: list[ev.Run] = []
        for place in range(RUNS_AN_ENTRY):
            number = (counter * RUNS_AN_ENTRY + place) % partitions
            runs.append(ev.Run(number, place * 100, 100, next_offsets[number], 1, START_MS, 1, 0))
            next_offsets[number] += 1
        yield _entry(ev.WalCommitted(1, counter, RUNS_AN_ENTRY * 100, tuple(runs), ()))


def _entry(*events: ev.Event, writer: int = 1) -> bytes:
    return encode_entry(bytes(12), writer, START_MS, encode_events(events))


async def write_log(path: Path, options: Options) -> None:
    """Write the log, with a snapshot if that is wanted."""
    state = ClusterState()
    log = await open_file(path)
    for payload in entries(options.slices, options.partitions, options.groups):
        position = state.position + 1
        await log.append(position, payload)
        state.apply(position, decode_entry(payload, position))
    if options.snapshot:
        await save_verified(log, *await encode_state(state))
        await trim_below_verified(log)
    await log.aclose()


def prepared(options: Options) -> LocalBroker:
    """Return a gateway on such a log; it is not started yet."""
    folder = WORK / "brokers" / "restart"
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "instance.key").write_text(f"{KEY}\n")
    trio.run(write_log, data / "metadata.db", options)
    port, admin_port = free_ports(2)
    command = [str(ROOT / "tidegate"), "dev", "--port", str(port), "--data", str(data)]
    return LocalBroker([*command, "--admin-port", str(admin_port)], port, folder)


def life(broker: LocalBroker, group: str) -> tuple[float, float]:
    """Start the gateway and kill it; return the seconds to an answer and to the group's offset."""
    begun = time.monotonic()
    process = broker.process = spawn(broker.command, broker.log, cwd=ROOT)
    try:
        while not answers("127.0.0.1", broker.port):
            late = time.monotonic() - begun > SERVING_SECONDS
            if late or process.popen.poll() is not None:
                raise StartFailed(f"it does not serve\n{tail(broker.log)}")
            time.sleep(0.01)
        serving = time.monotonic() - begun
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=SERVING_SECONDS)
        if found.offset != GROUP_OFFSET:
            raise StartFailed(f"the group has {found}")
        claimed = time.monotonic() - begun
        consumer.close()
    finally:
        broker.kill()
    return serving, claimed


def main(options: Options) -> Result:
    """Run it."""
    broker = prepared(options)
    lives = [life(broker, f"group-{number % options.groups}") for number in range(options.lives)]
    shutil.rmtree(broker.folder / "data")
    serving, claimed = zip(*lives, strict=True)
    figures = {
        "slices": options.slices,
        "snapshot": options.snapshot,
        "serving_p50_seconds": round(statistics.median(serving), 3),
        "serving_max_seconds": round(max(serving), 3),
        "group_p50_seconds": round(statistics.median(claimed), 3),
        "group_max_seconds": round(max(claimed), 3),
    }
    return Result(is_good=True, figures=figures)
