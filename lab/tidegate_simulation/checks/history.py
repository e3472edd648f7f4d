"""The operations of clients and their results, one event a line: the checker's only input.

    {"index", "time_ns", "process", "type", "f", "value"}

index counts from 0.  time_ns is since the start of the run.  process names a client; each has at
most one operation open, but for `send` and `poll`, which may have several.  type:

    invoke  the operation began
    ok      it was done
    fail    it certainly had no effect
    info    the outcome is unknown; it may take effect at any later time

Every ok, fail and info that ends an operation carries "of": the index of its invoke, and the
invoke's value with more in it.  fail and info may carry "error" (Kafka's name).  A note is an event
without an invoke.  What stands in [brackets] may be left out; a checker then checks less.

f and its value, where key is a small integer that stands for one partition of one topic id (a topic
that is created again has new keys), and values of records are integers, each sent once:

    send       {"key", "values", "producer": [id, epoch] or null, ["ts"], ["by_name"]}
               ts: time stamp of the records, ms on the clock of time_ns.  by_name: true when the
               topic was not named by its id.  ok: "offset" of the first value, -1 when no longer
               known.  fail, info: ["error"].  Of a malformed batch: "malformed" what is wrong,
               "due" the error that it must get, ["named"] the places of the records that the error
               must name; fail: "were_named" those that it named
    assign     note ok {"keys"}: the reader's positions start again
    poll       {"key", "position", ["wait_ms"] for how long it waits for records}.  ok: "records"
               [[offset, value], ...], "next", ["start"] the log start, ["hw"] the high watermark,
               ["link"] what names the connection, ["lso"] the last stable offset,
               ["committed"] true if only committed records were asked for.  fail: "error"
    end_txn    see checks_transactions.py; a send of a transaction has its name as "txn"
    trim       {"key", "before"}: records below may go.  ok: "low", the first offset that stays
    low        {"key"}: what is the log start?  ok: "offset"
    end        {"key"}: what is the end offset?  ok: "offset"
    seek       {"key", "ts"}: the first record of this time or later?  ok: "offset", -1 for none
    created    note ok {"topic", "keys"}: a topic that is recreated or may be deleted
    delete     {"keys"}: the topic of these keys is deleted
    begins     note ok {"key", "offset"}: the first offset ever, if it is not 0
    retention  note ok {"key", "ms", "bytes"}: from the start of the key on; -1 for no limit
    compacted  note ok {"key", "keys", "tombstones"}: from the start of the key on, of the
               records of one record key only the newest may stay.  The record key of a value is
               its rest by "keys"; a tombstone is one that "tombstones" divides, unless that is 0
    commit     {"group", "key", "offset", ["generation", "member"]}; the last two of members
    expired    note ok {"group", "keys"}: what was committed for these keys is forgotten; a key
               that no client knows is null
    forget     {"group"}: the group is deleted, with its offsets
    gone       note ok {"group"}: it was deleted, by a client or because it was empty,
               with its offsets; it may start again
    fetched    {"group", "key"}: what is committed?  ok: "offset", null for nothing
    joined     {"group"}: JoinGroup and SyncGroup.  ok: "generation", "member", "keys",
               ["instance"] a static member's, ["session_ms"].  info: ["error"], and then "member",
               "" for a new one
    heartbeat  {"group", "member", "generation"}.  fail: "error"
    steady     note ok {"group", "members"}: a group whose members never leave, and their number
    counted    note ok {"group", "generation", "count"}: members, as a steady group's leader learnt
    left       note ok {"group", "member"}: the member is about to leave
    unaware    note info {"groups"}: the lease of the gateway that serves these groups has expired,
               and that gateway cannot know it
    aware      note info {"groups"}: that gateway knows it, or has stopped
    healed     note info, value null: no faults from here on
    drained    note ok {"key", "offset"}: a last reader reached this end of the key

Register reads (end, low, fetched, seek) are asked of a gateway that first reads the log to its end;
a stale gateway may answer polls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Value = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history."""

    index: int
    time_ns: int
    process: str
    type: str
    f: str
    value: Value
    of: int = -1

    def as_json(self) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "index": self.index,
            "time_ns": self.time_ns,
            "process": self.process,
            "type": self.type,
            "f": self.f,
            "value": self.value,
        }
        if self.of >= 0:
            line["of"] = self.of
        return json.dumps(line, separators=(",", ":"))


class History:
    """Grows at the end.

    now: seconds since the start of the run.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.events: list[Event] = []
        self._now = now

    def invoke(self, process: str, f: str, value: Value) -> Event:
        """Begin an operation."""
        return self._add(process, "invoke", f, value, -1)

    def ok(self, invoke: Event, **more: Any) -> Event:
        """End an operation as done; more extends the value of the invoke."""
        return self._finish(invoke, "ok", more)

    def fail(self, invoke: Event, **more: Any) -> Event:
        """End an operation that certainly had no effect."""
        return self._finish(invoke, "fail", more)

    def info(self, invoke: Event, **more: Any) -> Event:
        """End an operation with an unknown outcome."""
        return self._finish(invoke, "info", more)

    def note(self, process: str, kind: str, f: str, value: Value) -> Event:
        """Add an event without an invoke (assign, created, healed, drained, ...)."""
        return self._add(process, kind, f, value, -1)

    def lines(self) -> list[str]:
        """Return all lines, for a file or a comparison."""
        return [each.as_json() for each in self.events]

    def _finish(self, invoke: Event, kind: str, more: dict[str, Any]) -> Event:
        value = {**(invoke.value or {}), **more}
        return self._add(invoke.process, kind, invoke.f, value, invoke.index)

    def _add(self, process: str, kind: str, f: str, value: Value, of: int) -> Event:
        time_ns = round(self._now() * 1e9)
        event = Event(len(self.events), time_ns, process, kind, f, value, of)
        self.events.append(event)
        return event


def read_lines(lines: Iterable[str]) -> Sequence[Event]:
    """Read a history back."""
    return [Event(**json.loads(line)) for line in lines]
