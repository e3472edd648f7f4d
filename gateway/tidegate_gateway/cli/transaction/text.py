"""The output of `tidegate transaction`, for a person and for a script.  No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from ..output.table import aligned, printable
from .rows import Details, OpenPartition, Row, Staged

SHOWN: Final = 200
MAX_NAME: Final = 250
_HEADS: Final = ("STATE", "OPEN FOR", "PARTITIONS", "PRODUCER", "ID")
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_UNITS_AT_ONCE: Final = 2


def list_text(rows: Sequence[Row], *, is_filtered: bool) -> str:
    """Return a table of ids."""
    if not rows:
        none = "No transactional id passes these filters."
        return none if is_filtered else "No producer has used a transactional id."
    cells = [
        (each.state, _age(each), _count(each), str(each.producer_id), name_text(each))
        for each in rows[:SHOWN]
    ]
    lines = aligned([_HEADS, *cells])
    if len(rows) > SHOWN:
        lines.append(f"and {len(rows) - SHOWN} more; --json lists all")
    return "\n".join(lines)


def _age(row: Row) -> str:
    return "-" if row.open_ms is None else duration_text(row.open_ms)


def _count(row: Row) -> str:
    return "-" if row.open_ms is None else str(row.partitions)


def name_text(row: Row) -> str:
    """Return a transactional id; clients may choose very long ones."""
    name = printable(row.transactional_id)
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}... (--json shows all of it)"


def duration_text(duration_ms: int) -> str:
    """Return a duration in its two largest units, such as 3 h 5 min."""
    left, parts = duration_ms // 1000, list[str]()
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if parts or count:
            parts.append(f"{count} {unit}")
    return " ".join([each for each in parts[:_UNITS_AT_ONCE] if each[0] != "0"]) or "0 s"


def describe_text(details: Details) -> str:
    """Return all facts of an id."""
    row = details.row
    lines = [
        f"transactional id  {name_text(row)}",
        f"state             {row.state}",
        f"producer          id {row.producer_id}, epoch {row.producer_epoch}",
        f"time-out          {duration_text(row.timeout_ms)}",
    ]
    if row.open_ms is not None:
        since = _time_text(row.started_ms or 0)
        lines.append(f"open for          {duration_text(row.open_ms)}, since {since}")
        lines.append(f"partitions        {len(details.partitions)}")
        lines += _limited([f"  {_partition(each)}" for each in details.partitions])
        lines.append(f"groups            {len(details.groups)}")
        lines += _limited(list(_groups(details)))
    return "\n".join(lines)


def _limited(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"  and {more} more; --json lists all"]


def _partition(each: OpenPartition) -> str:
    where = f"{each.topic} {each.partition}"
    if each.first_offset is None:
        return f"{where}: no records yet"
    waiting = "; readers of committed records wait for it" if each.is_held else ""
    return f"{where}: from offset {each.first_offset} of {each.next_offset}{waiting}"


def _groups(details: Details) -> Iterator[str]:
    staged: dict[str, list[Staged]] = {}
    for each in details.staged:
        staged.setdefault(each.group, []).append(each)
    for group in details.groups:
        yield f"  {printable(group)}: {_offsets(len(staged.get(group, ())))}"
        for each in staged.get(group, ()):
            late = "; a later commit holds" if each.is_overtaken else ""
            yield f"    {each.topic} {each.partition} at {each.offset}{late}"


def _offsets(count: int) -> str:
    return f"{count} offset{'s' if count != 1 else ''} to commit"


def _time_text(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"


def question(details: Details) -> str:
    """Return the question before an abort."""
    return f"Abort it? Readers skip its records, and {_dropped(details)}."


def aborted_text(details: Details) -> str:
    """Return a text about the outcome of an abort."""
    age = duration_text(details.row.open_ms or 0)
    return (
        f"{name_text(details.row)}: its transaction, open for {age}, is aborted. Readers skip its"
        f" records, and {_dropped(details)}. Its producer is fenced: it gets an error, and has to"
        " start anew."
    )


def _dropped(details: Details) -> str:
    count = len(details.staged)
    return f"{count} offset{'s' if count != 1 else ''} of groups will not be committed"


def list_json(rows: Sequence[Row]) -> str:
    """Return the ids as JSON."""
    return json.dumps([asdict(each) for each in rows])


def describe_json(details: Details) -> str:
    """Return all facts of an id as JSON."""
    return json.dumps(_values(details))


def _values(details: Details) -> dict[str, object]:
    return {
        **asdict(details.row),
        "partitions": [{**asdict(each), "is_held": each.is_held} for each in details.partitions],
        "groups": details.groups,
        "staged_offsets": [asdict(each) for each in details.staged],
    }


def aborted_json(details: Details, *, done: bool) -> str:
    """Return the outcome of an abort as JSON."""
    return json.dumps({"aborted": done, "transaction": _values(details)})
