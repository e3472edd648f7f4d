"""Runs `tidegate topic consume`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.consumer.positions import read_position
from tidegate_coordination.client.consumer.reading import Found, ReadOptions, TopicReader
from tidegate_coordination.client.groups.group_reading import GroupReader
from tidegate_coordination.client.topic_calls import known_partitions
from tidegate_runtime.settings_texts import BadSource

from ..kafka.cluster import complain, run_client
from ..kafka.options import KafkaPlace
from .record_text import json_line, text_line, value_line

SIGNALLED: Final = 128
"""Exit codes of what a signal ended are above it, as shells have it."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options as typed.  most: None for all records.  group: "" for none."""

    topic: str
    start: str = "earliest"
    partitions: tuple[int, ...] = ()
    most: int | None = None
    follows: bool = False
    is_committed: bool = False
    only_values: bool = False
    as_json: bool = False
    group: str = ""

    def line(self, *, is_terminal: bool) -> Callable[[Found], bytes]:
        """Return how a record is printed."""
        if self.as_json:
            return lambda found: json_line(self.topic, found)
        if self.only_values:
            return lambda found: value_line(found, is_escaped=is_terminal)
        return text_line


def run_consume(place: KafkaPlace, options: ConsumeOptions) -> int:
    """Print the records; return the exit code."""

    async def work(cluster: ClassicCluster) -> int:
        return await consume(cluster, options, _write_out, is_terminal=sys.stdout.isatty())

    try:
        return run_client(place, work)
    except BrokenPipeError:
        # The reader of the pipe has ended, such as `head`.  At its exit Python would flush to the
        # pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _write_out(data: bytes) -> None:
    """Write to standard output in a thread, so that a slow reader does not delay heartbeats."""
    await trio.to_thread.run_sync(_write_all, sys.stdout.fileno(), data, abandon_on_cancel=True)


def _write_all(descriptor: int, data: bytes) -> None:
    # This avoids sys.stdout: if a signal ended the command meanwhile, its lock would still be held.
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


async def consume(
    cluster: ClassicCluster,
    options: ConsumeOptions,
    write: Callable[[bytes], Awaitable[object]],
    *,
    is_terminal: bool,
) -> int:
    """Write the records; return the exit code; raises as run_client() expects.

    is_terminal: the output is a terminal, which control characters must not reach.
    """
    start = read_position(options.start, "--from")
    line = options.line(is_terminal=is_terminal)
    what = ReadOptions(start, options.partitions, options.follows, options.is_committed)
    if options.group:
        return await _consume_as_member(
            cluster, options, what, lambda found: write(b"".join(map(line, found)))
        )
    left = options.most
    async with aclosing(TopicReader(cluster, options.topic, what, complain).records()) as records:
        async for each in records:
            chosen = each[:left]
            await write(b"".join(map(line, chosen)))
            if left is not None:
                left -= len(chosen)
                if left == 0:
                    break
    return 0


async def _consume_as_member(
    cluster: ClassicCluster,
    options: ConsumeOptions,
    what: ReadOptions,
    write: Callable[[list[Found]], Awaitable[object]],
) -> int:
    """Read as a member of the group; a signal makes it leave."""
    if options.partitions:
        raise BadSource("--partition: the members of a group share its partitions; leave it out")
    await known_partitions(cluster, options.topic)
    reader = GroupReader(
        cluster,
        options.group,
        options.topic,
        what,
        most=options.most,
        write=write,
        note=complain,
    )
    code = 0
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def end() -> None:
                nonlocal code
                async for number in signals:
                    code = SIGNALLED + number
                    nursery.cancel_scope.cancel()

            nursery.start_soon(end)
            problem: Exception | None = None
            try:
                await reader.run()
            except Exception as error:  # the error itself, not the nursery's exception group
                problem = error
            nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return code
