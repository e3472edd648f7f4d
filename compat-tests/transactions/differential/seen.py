"""Answers in a comparable form: a flat dict of paths and plain values.

A row of a list has its natural key in the path, since the order of rows is not fixed.  Times, texts
and addresses are left out; records are shown batch by batch.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeAlias

from tidegate_protocol.messages.fetch import AbortedTransaction, PartitionData
from tidegate_protocol.records import decode_records, read_header, walk

from .names import Names

Seen: TypeAlias = dict[str, object]

# Leader and coordinator epochs may differ between brokers.
_LEFT_OUT: Final = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "batch_index_error_message",
        "last_timestamp",
        "coordinator_epoch",
        "leader_epoch",
        "current_leader",
        "node_endpoints",
        "log_append_time_ms",
        "session_id",
        "preferred_read_replica",
    }
)
_KEYS: Final = (
    "name",
    "topic",
    "topic_id",
    "partition_index",
    "index",
    "transactional_id",
    "group_id",
    "producer_id",
    "member_id",
)
ABORTED_LATER: Final = "aborted beyond the stable offset"
_NO_TOPIC_ID: Final = bytes(16)
_MOST_BYTES: Final = 1 << 20
_CONTROL: Final = {0: "abort marker", 1: "commit marker"}


def flat(path: str, value: object, names: Names) -> Seen:
    """Return all values of an answer, by their paths."""
    seen: Seen = {}
    _walk(path, value, names, seen)
    return seen


def codes(seen: Mapping[str, object]) -> set[int]:
    """Return all error codes of an answer."""
    return {
        each for path, each in seen.items() if path.endswith("error_code") and isinstance(each, int)
    }


def _walk(path: str, value: Any, names: Names, seen: Seen) -> None:
    if isinstance(value, list):
        seen[f"{path}#"] = len(value)
        for key, each in _keyed(value, names):
            _walk(f"{path}/{key}", each, names, seen)
    elif isinstance(value, PartitionData):
        _walk_fields(path, _without_later(value, names), names, seen)
    elif is_dataclass(value):
        _walk_fields(path, value, names, seen)
    else:
        seen[path] = value


def _without_later(partition: PartitionData, names: Names) -> PartitionData:
    """Leave out aborted transactions that begin at or above the last stable offset."""
    listed = partition.aborted_transactions or []
    kept = [each for each in listed if each.first_offset < partition.last_stable_offset]
    if len(kept) == len(listed):
        return partition
    names.note(ABORTED_LATER)
    return replace(partition, aborted_transactions=kept)


def _walk_fields(path: str, value: Any, names: Names, seen: Seen) -> None:
    for field in fields(value):
        name = field.name
        if name in _LEFT_OUT:
            continue
        if name == "records":
            _walk_batches(path, value.records, names, seen)
        else:
            _walk(f"{path}.{name}", _named(value, name, names), names, seen)


def _named(row: Any, name: str, names: Names) -> object:
    value = getattr(row, name)
    if name == "producer_id":
        return names.producer(value)
    if name == "producer_epoch":
        return names.epoch(row.producer_id, value)
    if name in ("member_id", "leader"):
        return names.member(value)
    if name == "topic_id":
        return names.topic(value) if value != _NO_TOPIC_ID else ""
    if name == "transaction_start_time_ms":
        return value >= 0
    return value


def _keyed(rows: list[Any], names: Names) -> list[tuple[str, Any]]:
    keyed: dict[str, Any] = {}
    for each in rows:
        key = first = _key(each, names)
        number = 1
        while key in keyed:
            number += 1
            key = f"{first} ({number})"
        keyed[key] = each
    return list(keyed.items())


def _key(row: Any, names: Names) -> str:
    if isinstance(row, AbortedTransaction):
        return f"{names.producer(row.producer_id)} from {row.first_offset}"
    if not is_dataclass(row):
        return str(row)
    known = {field.name for field in fields(row)}
    for name in _KEYS:
        if name in known and getattr(row, name) not in ("", _NO_TOPIC_ID):
            return str(_named(row, name, names))
    return type(row).__name__


def _walk_batches(path: str, records: object, names: Names, seen: Seen) -> None:
    data = memoryview(b"".join(records) if isinstance(records, list) else records or b"")  # type: ignore[arg-type]
    for position, size in walk(data):
        batch = data[position : position + size.size_bytes]
        header = read_header(batch)
        producer = names.producer(header.producer_id)
        epoch = names.epoch(header.producer_id, header.producer_epoch)
        seen[f"{path}.records@{header.base_offset}"] = (
            f"{header.record_count} of {header.last_offset_delta + 1}",
            f"attributes {header.attributes}",
            f"{producer} epoch {epoch}",
            f"sequence {header.base_sequence}",
            _content(batch, is_control=header.is_control),
        )


def _content(batch: memoryview, *, is_control: bool) -> str:
    rows = list(decode_records(batch, max_decompressed_bytes=_MOST_BYTES))
    if not is_control:
        return " ".join((row.value or b"").decode() for row in rows)
    return " ".join(_CONTROL.get(int.from_bytes((row.key or b"")[2:4], "big"), "?") for row in rows)
