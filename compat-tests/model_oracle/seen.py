"""An answer as paths and values that both sides can agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tidegate_protocol.batches import HEADER_BYTES, read_header

_KEYS: Final = ("topic", "name", "partition_index", "index", "partition", "producer_id", "node_id")
_LEFT_OUT: Final = frozenset(
    {
        "error_message",  # our texts differ from Kafka's
        "batch_index_error_message",
        "throttle_time_ms",
        "host",
        "port",
        "rack",
        "cluster_id",
        "controller_id",
        "documentation",
        "synonyms",
        "topic_id",
        "log_append_time_ms",
        "last_timestamp",
    }
)


def seen(answer: Any) -> dict[str, Any]:
    """Return an answer's values by their paths.  A row's path has its key instead of its index."""
    return dict(_flat("", answer))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for each in fields(value):
            if each.name not in _LEFT_OUT:
                yield from _flat(f"{path}.{each.name}", getattr(value, each.name))
    elif isinstance(value, list) and value and is_dataclass(value[0]):
        for place, row in enumerate(value):
            yield from _flat(f"{path}[{_key(row, place)}]", row)
    elif isinstance(value, bytes | bytearray | memoryview):
        yield path, without_times(bytes(value)).hex()
    else:
        yield path, value


def _key(row: Any, place: int) -> str:
    return ",".join(str(getattr(row, each)) for each in _KEYS if hasattr(row, each)) or str(place)


def without_times(records: bytes) -> bytes:
    """Return batches without the parts that depend on the broker's clock.

    These are the times of LogAppendTime and of markers, and CRCs.
    """
    # The last batch may be cut off, so add room for a header.
    out, position = bytearray(records + bytes(HEADER_BYTES)), 0
    while position < len(records):
        header = read_header(out, position)
        if header.is_log_append_time or header.is_control:
            out[position + 17 : position + 21] = bytes(4)
            out[position + 35 : position + 43] = bytes(8)
        if header.is_control:
            out[position + 27 : position + 35] = bytes(8)
        position += header.size_bytes
    return bytes(out[: len(records)])
