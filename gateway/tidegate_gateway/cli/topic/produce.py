"""Runs `tidegate topic produce`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import BinaryIO, Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.producer.input_lines import LineFormat, LineSplitter, shown_lines
from tidegate_coordination.client.producer.producing import (
    Pieces,
    TopicWriter,
    WriteOptions,
    Written,
)
from tidegate_protocol.compression import Codec
from tidegate_runtime.settings_texts import BadSource

from ..kafka.cluster import NOT_DONE, complain, pairs, run_client
from ..kafka.options import KafkaPlace
from ..output.table import counted

PIECE_BYTES: Final = 64 << 10
LISTED_LINES: Final = 1000
"""The most unacknowledged lines that the JSON names, so that a script can send them again."""


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The options as typed.  file: None for stdin.  compression: the name of a Codec."""

    topic: str
    file: Path | None = None
    key_separator: str | None = None
    null_marker: str | None = None
    headers: tuple[str, ...] = ()
    partition: int | None = None
    compression: str = "NONE"

    def write_options(self) -> WriteOptions:
        """Return how to write; raises BadSource."""
        found = pairs("--header", self.headers)
        headers = tuple((name, _bytes(value)) for name, value in found.items())
        return WriteOptions(self.partition, headers, Codec[self.compression])

    def line_format(self) -> LineFormat:
        """Return how lines are read.

        Raises:
          BadSource: the separator is empty.
        """
        separator = self.key_separator
        if separator == "":
            raise BadSource("--key-separator is empty")
        marker = self.null_marker
        return LineFormat(
            None if separator is None else _bytes(separator.replace("\\t", "\t")),
            None if marker is None else _bytes(marker),
        )


def _bytes(text: str) -> bytes:
    """Return an argument's bytes, even if they are no UTF-8."""
    return text.encode(errors="surrogateescape")


def run_produce(place: KafkaPlace, options: ProduceOptions, *, as_json: bool) -> int:
    """Write the lines; return the exit code."""
    writers: list[TopicWriter] = []

    async def work(cluster: ClassicCluster) -> int:
        file = _opened(options.file)
        if file.isatty():
            print("Each line is a record; Ctrl+D ends.", file=sys.stderr)
        lines = pieces(lambda: os.read(file.fileno(), PIECE_BYTES), options.line_format())
        return await produce(cluster, options, lines, as_json=as_json, began=writers.append)

    try:
        return run_client(place, work)
    except BaseException:  # Ctrl+C
        for each in writers:
            _tell(each.written, as_json=as_json)
        raise


def _opened(path: Path | None) -> BinaryIO:
    try:
        return sys.stdin.buffer if path is None else path.open("rb", buffering=0)
    except OSError as error:
        raise BadSource(str(error)) from None


async def produce(
    cluster: ClassicCluster,
    options: ProduceOptions,
    lines: Pieces,
    *,
    as_json: bool,
    began: Callable[[TopicWriter], None] = lambda writer: None,
    seconds: Callable[[], float] = time.time,
) -> int:
    """Write the lines; return the exit code; raises as run_client() expects.

    began: called with the writer, before anything is written.  seconds: the time since 1970.
    """
    writer = TopicWriter(
        cluster,
        options.topic,
        options.write_options(),
        rng=Random(os.urandom(32)),
        now_ms=lambda: int(seconds() * 1000),
    )
    await writer.open()
    began(writer)
    await writer.write(lines)
    written = writer.written
    _tell(written, as_json=as_json)
    return NOT_DONE if written.problem or written.missing else 0


async def pieces(read: Callable[[], bytes], line_format: LineFormat) -> Pieces:
    """Yield the records of each piece of input as soon as `read` returns it; b"" is the end."""
    splitter = LineSplitter(line_format)
    while piece := await trio.to_thread.run_sync(read, abandon_on_cancel=True):
        yield splitter.receive(piece)
    yield splitter.end()


def _tell(written: Written, *, as_json: bool) -> None:
    """Print the outcome; errors go to stderr."""
    if as_json:
        partitions = {
            str(each): written.by_partition[each] for each in sorted(written.by_partition)
        }
        facts = {
            "acknowledged": written.acknowledged,
            "partitions": partitions,
            "not_acknowledged": len(written.missing),
            "lines_not_acknowledged": written.missing[:LISTED_LINES],
            "last_line_read": written.last_line,
            "problem": written.problem or None,
        }
        print(json.dumps(facts), flush=True)
        return
    if written.problem:
        complain(f"{written.problem}; nothing after line {written.last_line} was sent")
    if written.missing:
        word = "line" if len(written.missing) == 1 else "lines"
        print(f"not acknowledged: {word} {shown_lines(written.missing)}", file=sys.stderr)
    count = written.acknowledged
    print(f"{counted(count, 'record')} {'was' if count == 1 else 'were'} acknowledged", flush=True)
