"""A record as a line: for a person, for a script, or its value alone.  Pure.

Keys, values and headers come from other clients.  In a terminal their control characters could move
the cursor or overwrite other text, so they are escaped.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, Final

from tidegate_coordination.client.consumer.reading import Found
from tidegate_protocol.records import Record

from ..output.table import printable

_NO_TIME: Final = -1


def text_line(found: Found) -> bytes:
    """Return a record for a person: place, time, key, value and headers."""
    record = found.record
    parts = [f"{found.partition}:{record.offset}", time_text(record.timestamp)]
    if record.key is not None:
        parts.append(f"key={shown(record.key)}")
    parts.append("(null)" if record.value is None else shown(record.value))
    for name, value in record.headers:
        parts.append(f"[{_header_name(name)}={'' if value is None else shown(value)}]")
    return f"{'  '.join(parts)}\n".encode()


def shown(data: bytes) -> str:
    """Return bytes as text without control characters; bytes that are no UTF-8 as \\xff."""
    return printable(data.decode(errors="backslashreplace"))


def _header_name(name: str) -> str:
    return shown(name.encode(errors="surrogateescape"))


def time_text(timestamp: int) -> str:
    """Return milliseconds since 1970 as a time in UTC; `-` for none."""
    if timestamp == _NO_TIME:
        return "-"
    seconds, milliseconds = divmod(timestamp, 1000)
    try:
        found = datetime.fromtimestamp(seconds, UTC)
    # clients may write any number, also one that is no valid time
    except (OverflowError, ValueError, OSError):
        return f"@{timestamp}"
    return f"{found:%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def value_line(found: Found, *, is_escaped: bool) -> bytes:
    """Return the value and a line end.  A null value is an empty one."""
    value = found.record.value or b""
    return (shown(value).encode() if is_escaped else value) + b"\n"


def json_line(topic: str, found: Found) -> bytes:
    """Return a record as a JSON object; bytes that are no UTF-8 in base64."""
    record: Record = found.record
    facts: dict[str, Any] = {
        "topic": topic,
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [_header(name, value) for name, value in record.headers],
    }
    return json.dumps(facts).encode() + b"\n"


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    return {
        **_field("name", name.encode(errors="surrogateescape")),
        **_field("value", value),
    }


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}
