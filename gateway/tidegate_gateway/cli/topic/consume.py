"""Runs `tidegate topic consume`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from tidegate_coordination.classic.cluster import ClassicCluster

from ...kafka_client.positions import read_position
from ...kafka_client.reading import Found, ReadOptions, TopicReader
from ..kafka_cluster import complain, run_client
from ..kafka_options import KafkaPlace
from .record_text import json_line, text_line, value_line


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """As they were typed.  most: None for all."""

    topic: str
    start: str = "earliest"
    partitions: tuple[int, ...] = ()
    most: int | None = None
    follows: bool = False
    is_committed: bool = False
    only_values: bool = False
    as_json: bool = False

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
        def write(data: bytes) -> None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

        return await consume(cluster, options, write, is_terminal=sys.stdout.isatty())

    try:
        return run_client(place, work)
    except BrokenPipeError:
        # The reader has enough, as `head` does.  Python would flush to it once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def consume(
    cluster: ClassicCluster,
    options: ConsumeOptions,
    write: Callable[[bytes], object],
    *,
    is_terminal: bool,
) -> int:
    """Write the records; return the exit code; raises as run_client() expects.

    is_terminal: a terminal shows them, so that control characters must not reach it.
    """
    start = read_position(options.start, "--from")
    line = options.line(is_terminal=is_terminal)
    what = ReadOptions(start, options.partitions, options.follows, options.is_committed)
    left = options.most
    async with aclosing(TopicReader(cluster, options.topic, what, complain).records()) as records:
        async for each in records:
            chosen = each[:left]
            write(b"".join(map(line, chosen)))
            if left is not None:
                left -= len(chosen)
                if left == 0:
                    break
    return 0
