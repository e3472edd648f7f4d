"""Two processes race for the same positions of a log, or the same keys of a store.

    python -m clouds.racing log|store URL NAME COUNT

A racer opens the place, prints "ready", waits for a line, and tries to take each of COUNT places in
turn.  Then it prints as JSON the numbers of the places that it won according to its answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Final

import trio
from harness.places import HERE

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import AppendResult, LogUnavailable
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectExists, StoreUnavailable

SECONDS: Final = 120

Take = Callable[[int], Awaitable[bool]]


def race(
    kind: str, url: str, *, count: int, names: Sequence[str] = ("one", "two")
) -> list[set[int]]:
    """Return for each racer the numbers that it won, by the answers it got."""
    with ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "clouds.racing", kind, url, name, str(count)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=HERE,
                    text=True,
                )
            )
            for name in names
        ]
        for each in racers:
            stack.callback(each.kill)
        for each in racers:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        told = [each.communicate(timeout=SECONDS)[0] for each in racers]
    return [set(json.loads(each)) for each in told]


async def _racer(kind: str, url: str, name: str, count: int) -> None:
    place = await _log(url, name) if kind == "log" else await _store(url, name)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([number for number in range(1, count + 1) if await place(number)]))


async def _log(url: str, name: str) -> Take:
    log = await open_log(url)

    async def take(position: int) -> bool:
        while True:
            try:
                result = await log.append(position, name.encode())
            except LogUnavailable:
                continue
            return result is AppendResult.APPENDED

    return take


async def _store(url: str, name: str) -> Take:
    store = open_store(url)

    async def take(number: int) -> bool:
        try:
            await store.put(f"race/{number}", name.encode())
        except (ObjectExists, StoreUnavailable):
            return False
        return True

    return take


if __name__ == "__main__":
    trio.run(_racer, sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
