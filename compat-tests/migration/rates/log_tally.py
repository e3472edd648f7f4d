"""Counts the bytes of a metadata log while a run continues, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.events.cluster import WalCommitted
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.existing import open_followed_log
from tidegate_coordination.log.metadata_log import FIRST_POSITION, MetadataLog, Trimmed

LOOK_SECONDS: Final = 1.0
READ_BYTES: Final = 8 << 20


@dataclass(slots=True)
class Tally:
    """Counts of a log's entries.

    runs: of WAL objects.  run_bytes: the size of the entries that have runs.  all_bytes: the size
    of all entries.  lost: entries that were trimmed before they were read.
    """

    runs: int = 0
    objects: int = 0
    run_bytes: int = 0
    all_bytes: int = 0
    lost: int = 0

    def take(self, position: int, payload: bytes) -> None:
        """Count one entry."""
        commits = [
            each for each in decode_entry(payload, position).events
            if isinstance(each, WalCommitted)
        ]  # fmt: skip
        self.all_bytes += len(payload)
        self.run_bytes += len(payload) if commits else 0
        self.objects += len(commits)
        self.runs += sum(len(each.runs) for each in commits)


@contextmanager
def tallied(url: str) -> Generator[Tally]:
    """Count the entries that are appended to a log during the block."""
    tally, begun, ended = Tally(), threading.Event(), threading.Event()
    thread = threading.Thread(target=trio.run, args=(_follow, url, tally, begun, ended))
    thread.start()
    try:
        begun.wait()
        yield tally
    finally:
        ended.set()
        thread.join()


async def _follow(url: str, tally: Tally, begun: threading.Event, ended: threading.Event) -> None:
    try:
        log = await open_followed_log(url)
        position = await _read(log, FIRST_POSITION, None)
        begun.set()
        while True:
            is_over = ended.is_set()
            position = await _read(log, position, tally)
            if is_over:
                break
            await trio.sleep(LOOK_SECONDS)
        await log.aclose()
    finally:
        begun.set()


async def _read(log: MetadataLog, position: int, tally: Tally | None) -> int:
    """Read to the end; return the next position."""
    while True:
        found = await log.read(position, READ_BYTES)
        if isinstance(found, Trimmed):
            if tally is not None:
                tally.lost += found.first_position - position
            position = found.first_position
            continue
        if not found:
            return position
        for each in found:
            if tally is not None:
                tally.take(each.position, each.payload)
        position = found[-1].position + 1
