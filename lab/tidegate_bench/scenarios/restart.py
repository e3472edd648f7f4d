"""restart: from kill -9 to the first acknowledgement, with many slices in the state."""

from __future__ import annotations

import time
from typing import Final

from ..brokers.worlds import Gateway
from ..clients.wire import Wire, small_batch
from ..errors import BenchError
from ..lab import Lab, new_topic, rows_of
from ..measure import proc
from ..measure.figures import Observation
from ..measure.table import Report

SLICES: Final = 100_000
QUICK_SLICES: Final = 5_000
PARTITIONS: Final = 1_000
PATIENCE_SECONDS: Final = 120.0
PROGRESS_SECONDS: Final = 5.0


def run(lab: Lab) -> Report:
    """Fill a gateway with small batches, then kill and start it, some times."""
    if lab.options.bootstrap is not None:
        raise BenchError("restart kills its broker: it needs a gateway that the bench starts")
    if lab.options.processes is not None:
        raise BenchError("restart kills and starts one gateway: leave --processes out")
    slices = QUICK_SLICES if lab.options.quick else SLICES
    with lab.gateway() as gateway, new_topic([gateway.world], PARTITIONS) as topic:
        _fill(lab, gateway, topic, slices)
        seen: list[Observation] = []
        for number in range(lab.options.lengths.runs):
            seen.append(_restart(gateway, topic))
            lab.say(f"restart: run {number + 1}: {seen[-1].more['serving s']:.2f} s")
    return Report("restart", rows_of(f"{slices:,} slices, kill -9", ["tidegate"], [seen]))


def _fill(lab: Lab, gateway: Gateway, topic: str, slices: int) -> None:
    """Write objects with one small batch of each partition, so that each batch is a slice."""
    wire = Wire.connect(gateway.world.bootstrap)
    batch = small_batch()
    said = time.perf_counter()
    for done in range(0, slices, PARTITIONS):
        wire.produce(topic, PARTITIONS, batch)
        if time.perf_counter() - said > PROGRESS_SECONDS:
            said = time.perf_counter()
            lab.say(f"restart: {done:,} slices")
    wire.close()


def _restart(gateway: Gateway, topic: str) -> Observation:
    gateway.stop(kill=True)
    begun = time.perf_counter()
    gateway.start()
    started = time.perf_counter()
    _acknowledged(gateway, topic)
    ended = time.perf_counter()
    pid = gateway.world.eyes.pid
    assert pid is not None
    return Observation(
        rss_bytes=proc.rss_bytes(pid),
        more={
            "start s": started - begun,
            "serving s": ended - begun,
            "cpu s": proc.cpu_seconds(pid),
        },
    )


def _acknowledged(gateway: Gateway, topic: str) -> None:
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while True:
        try:
            wire = Wire.connect(gateway.world.bootstrap)
            wire.produce(topic, 1, small_batch())
            wire.close()
            return
        except (OSError, BenchError):
            if time.perf_counter() > deadline:
                raise
            time.sleep(0.02)
