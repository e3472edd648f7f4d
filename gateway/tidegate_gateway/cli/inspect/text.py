"""Prints the findings of `tidegate inspect`: as text for a person, or as JSON for a script."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final, Protocol

from tidegate_coordination.object_names.standing import Known
from tidegate_coordination.state.cluster import ClusterState
from tidegate_protocol.compression import Codec
from tidegate_storage.objects.batch_scan import SeenBatch
from tidegate_storage.objects.wal_format import Slice

from ...tools.aborted_index import AbortedIndex
from ...tools.inspection import Frame, Scanned, Stretch

_KINDS: Final = {"wal": "WAL object", "segment": "segment"}
_NO_PRODUCER: Final = -1
_MAX_ABORTED: Final = 200
_ENDS: Final = {True: "commit", False: "abort"}


class Printer(Protocol):
    """Prints an object; its methods are called in the order of the object's bytes."""

    def frame(
        self, what: str, frame: Frame, state: ClusterState | None, known: Known | None
    ) -> None:
        """Begin the object: print its key, its frame, and whether the log refers to it."""
        ...

    def stretch(self, stretch: Stretch) -> None:
        """Begin a slice or chunk."""
        ...

    def batch(self, batch: SeenBatch) -> None:
        """Print a batch of the slice or chunk."""
        ...

    def scanned(self, found: Scanned) -> None:
        """End the slice or chunk."""
        ...

    def end(self, problems: int) -> None:
        """End the object.  problems: their number."""
        ...


class TextPrinter:
    """A line per finding."""

    def __init__(self, *, shows_batches: bool) -> None:
        self._shows_batches = shows_batches
        self._line = ""
        self._state: ClusterState | None = None
        self._aborted = AbortedIndex(())

    def frame(
        self, what: str, frame: Frame, state: ClusterState | None, known: Known | None
    ) -> None:
        """See Printer."""
        self._state = state
        version = "" if frame.version is None else f", format {frame.version[0]}.{frame.version[1]}"
        print(f"{what}\n{_KINDS[frame.kind]}{version}, {frame.size_bytes} bytes")
        if frame.identity is not None:
            node, incarnation, counter = frame.identity
            print(f"gateway   node {node}, incarnation {incarnation}, counter {counter}")
        if frame.tags.sources:
            count = len({each[:2] for each in frame.tags.sources})
            print(f"moved     its batches came from {count} objects inside the metadata log")
        if frame.place is not None:
            topic_id, partition, base, behind = frame.place
            name = _topic_name(state, topic_id)
            end = "?" if behind < 0 else behind - 1
            print(f"topic     {name}, partition {partition}, offsets {base} to {end}")
        self._aborted = AbortedIndex(frame.tags.aborted)
        _print_aborted(frame)
        if known is not None:
            _print_known(known)
        for problem in frame.problems:
            print(f"DAMAGED   {problem}")

    def stretch(self, stretch: Stretch) -> None:
        """See Printer."""
        self._line = self._described(stretch)
        if self._shows_batches:
            print(self._line)

    def _described(self, stretch: Stretch) -> str:
        place = f"bytes {stretch.position} to {stretch.position + stretch.length - 1}"
        entry = stretch.entry
        if entry is None:
            return f"unknown   {place}"
        if isinstance(entry, Slice):
            name = _topic_name(self._state, entry.topic_id)
            times = f"{time_text(entry.min_timestamp)} to {time_text(entry.max_timestamp)}"
            what = f"slice     {name} {entry.partition}"
            return f"{what}: {place}, {entry.record_count} records, {times}"
        offsets = f"offsets {entry.base_offset} to {entry.next_offset - 1}"
        newest = f"newest {time_text(entry.max_timestamp)}"
        return f"chunk     {offsets}: {place}, {entry.record_count} records, {newest}"

    def batch(self, batch: SeenBatch) -> None:
        """See Printer."""
        if self._shows_batches:
            print(_batch_line(batch, is_aborted=self._aborted.holds(batch)))

    def scanned(self, found: Scanned) -> None:
        """See Printer."""
        verdict = "ok" if not found.problems else "DAMAGED"
        counts = f"{found.batches} batches, {verdict}"
        print(f"          {counts}" if self._shows_batches else f"{self._line}, {counts}")
        for problem in found.problems:
            print(f"DAMAGED   {problem}")

    def end(self, problems: int) -> None:
        """See Printer."""
        print("whole" if not problems else f"damaged in {problems} places")


def _print_aborted(frame: Frame) -> None:
    for each in frame.tags.aborted[:_MAX_ABORTED]:
        offsets = f"offsets {each.first_offset} to {each.last_offset}"
        print(f"aborted   producer {each.producer_id}, {offsets}")
    if len(frame.tags.aborted) > _MAX_ABORTED:
        print(f"aborted   {len(frame.tags.aborted) - _MAX_ABORTED} more; --json lists all")


def _print_known(known: Known) -> None:
    print(f"cluster   {known.standing.value}")
    for topic, partition, row in known.runs:
        offsets = f"offsets {row.base_offset} to {row.next_offset - 1}"
        place = f"bytes {row.position} to {row.position + row.length - 1}"
        print(f"  read    {topic} {partition}: {offsets}, {place}")


class JsonPrinter:
    """Prints one document at the end; with batches, a line for each batch before it."""

    def __init__(self, *, shows_batches: bool) -> None:
        self._shows_batches = shows_batches
        self._aborted = AbortedIndex(())
        self._values: dict[str, object] = {}
        self._stretches: list[dict[str, object]] = []

    def frame(
        self, what: str, frame: Frame, state: ClusterState | None, known: Known | None
    ) -> None:
        """See Printer."""
        self._aborted = AbortedIndex(frame.tags.aborted)
        self._values = {
            "object": what,
            "kind": frame.kind,
            "version": frame.version,
            "size_bytes": frame.size_bytes,
            "identity": None if frame.identity is None else frame.identity._asdict(),
            "place": None
            if frame.place is None
            else {**frame.place._asdict(), "topic_id": frame.place.topic_id.hex()},
            "aborted": [each._asdict() for each in frame.tags.aborted],
            "sources": [each._asdict() for each in frame.tags.sources],
            "problems": frame.problems,
        }
        if known is not None:
            runs = [
                {"topic": topic, "partition": partition, **row._asdict()}
                for topic, partition, row in known.runs
            ]
            self._values["cluster"] = {"standing": known.standing.name.lower(), "runs": runs}

    def stretch(self, stretch: Stretch) -> None:
        """See Printer."""
        entry = stretch.entry
        values: dict[str, object] = {"position": stretch.position, "length": stretch.length}
        if entry is not None:
            values.update(entry._asdict())
        if isinstance(entry, Slice):
            values["topic_id"] = entry.topic_id.hex()
        self._stretches.append(values)

    def batch(self, batch: SeenBatch) -> None:
        """See Printer."""
        if self._shows_batches:
            header = batch.header._asdict()
            values = {
                "position": batch.position,
                "ok": batch.is_whole,
                "transactional": batch.header.is_transactional,
                "aborted": self._aborted.holds(batch),
                "marker": None if batch.commits is None else _ENDS[batch.commits],
                **header,
            }
            print(json.dumps({"batch": values}))

    def scanned(self, found: Scanned) -> None:
        """See Printer."""
        values = {"found_batches": found.batches, "found_records": found.records}
        self._stretches[-1].update(ok=not found.problems, problems=found.problems, **values)

    def end(self, problems: int) -> None:
        """See Printer."""
        name = "slices" if self._values["kind"] == "wal" else "chunks"
        print(json.dumps({"ok": not problems, **self._values, name: self._stretches}))


def _batch_line(batch: SeenBatch, *, is_aborted: bool) -> str:
    header = batch.header
    parts = [
        f"  batch   byte {batch.position}, {header.size_bytes} bytes",
        f"offsets {header.base_offset} to {header.last_offset}",
        f"{header.record_count} records",
        _codec(header.codec),
        f"{time_text(header.base_timestamp)} to {time_text(header.max_timestamp)}",
    ]
    if header.producer_id != _NO_PRODUCER:
        sequence = "" if header.is_control else f" sequence {header.base_sequence}"
        parts.append(f"producer {header.producer_id} epoch {header.producer_epoch}{sequence}")
    parts += _transaction_parts(batch, is_aborted=is_aborted)
    parts += [] if batch.is_whole else ["CRC WRONG"]
    return ", ".join(parts)


def _transaction_parts(batch: SeenBatch, *, is_aborted: bool) -> list[str]:
    if batch.commits is not None:
        return [f"{_ENDS[batch.commits]} marker"]
    if batch.header.is_control:
        return ["control"]
    if not batch.header.is_transactional:
        return []
    return ["transactional, aborted" if is_aborted else "transactional"]


def _codec(number: int) -> str:
    known = {each.value: each.name.lower() for each in Codec}
    return known.get(number, f"codec {number}")


def _topic_name(state: ClusterState | None, topic_id: bytes) -> str:
    """Return the topic's id, with its name if that is known."""
    topic = state.topics.by_id.get(topic_id) if state is not None else None
    return topic_id.hex() if topic is None else f"{topic.name} ({topic_id.hex()})"


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp of Kafka's as UTC text; -1 is none."""
    if timestamp_ms < 0:
        return "no time"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"
