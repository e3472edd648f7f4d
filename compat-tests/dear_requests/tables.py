"""Requests that list all, and a snapshot, with tables of a million rows.

    compat-tests/run dear-tables [TABLE...]

"stood" is the longest step of any task of the event loop, in CPU time of its thread.  "gc" is the
longest run of Python's collector, in any step.  "MiB" is the peak memory of the process above its
memory before the request, answer included.  The client is in the same process, and drops the
answers.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from runner.options import option
from runner.result import Result

from dear_requests.steps import Steps, peak_kib, reset_peak_kib
from tests.worlds.wide_tables import SETTINGS, TABLES, Table
from tests.worlds.wire_client import Closed, WireClient, WireWorld, request_frame, wire_world
from tidegate_coordination.log.snapshots import encode_state
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.work.pools import thread_pools
from tidegate_runtime.collector import calm_collector

PATIENCE_SECONDS = 180.0


async def watched(name: str, work: Callable[[], Awaitable[int]]) -> None:
    """Print the cost of `work`."""
    steps = Steps(trio.lowlevel.current_task())
    before = reset_peak_kib()
    began = time.perf_counter()
    gc.callbacks.append(steps.on_collection)
    trio.lowlevel.add_instrument(steps)
    try:
        size = await work()
    finally:
        trio.lowlevel.remove_instrument(steps)
        gc.callbacks.remove(steps.on_collection)
    memory_mib = (peak_kib() - before) / 1024
    print(
        f"  {name:36} {size / 1024:9.0f} {time.perf_counter() - began:6.2f}"
        f" {steps.longest * 1000:8.1f} {steps.longest_collection * 1000:6.1f} {memory_mib:8.1f}"
        f"  {steps.task if steps.longest > 0.05 else ''}",
        flush=True,
    )


async def ask(client: WireClient, name: str, version: int, request: Any) -> int:
    """Return the size of an answer; -1 where the connection was closed instead."""
    await client.send(request_frame(name, version, request))
    chunk = memoryview(bytearray(1 << 16))
    head, size = b"", 0
    try:
        while len(head) < 4 or size < 4 + int.from_bytes(head):
            await client.transport.wait_receivable()
            received = client.transport.receive_nowait(chunk)
            if received == 0:
                return -1
            size += received or 0
            head = (head + chunk[: received or 0])[:4]
    except TransportBroken:
        return -1
    return size


async def go_on(world: WireWorld) -> None:
    """Return once the gateway appends to the log again, after the filling blocked it."""
    while True:
        try:
            await world.create_topic("later", 1)
        except Closed:
            await trio.sleep(1.0)
        else:
            return


async def measure(table: Table, rows: int) -> None:
    """Print a line for each request, and one for a snapshot."""
    async with wire_world(settings=SETTINGS, pools=thread_pools()) as world:
        await world.create_topic("t", 1)
        state = world.gateway.coordinator.state
        table.fill(state, rows)
        with trio.fail_after(PATIENCE_SECONDS):
            await go_on(world)
        calm_collector()

        async def snapshot() -> int:
            sizes: list[int] = []

            async def encode() -> None:
                found = await encode_state(state)
                sizes.append(sum(map(len, found.chunks)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(encode)
            return sizes[0]

        for name, version, request in table.requests():
            await trio.sleep(0.05)
            with trio.fail_after(PATIENCE_SECONDS):
                await watched(name, partial(ask, world.connect(), name, version, request))
        await watched("snapshot", snapshot)


@dataclass(frozen=True)
class Options:
    """The options."""

    rows: int = 1_000_000
    tables: tuple[str, ...] = option((), "all by default", choices=TABLES, is_positional=True)


def main(options: Options) -> Result:
    """Run it."""
    print(f"  {'':36} {'KiB':>9} {'s':>6} {'stood':>8} {'gc':>6} {'MiB':>8}")
    for name in options.tables or TABLES:
        print(f"{name}, {options.rows} rows")
        trio.run(measure, TABLES[name], options.rows)
    return Result(is_good=True)
