"""Checks of consumer groups: committed offsets, generations, members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .facts import Facts, Violation, value_of
from .history import Event

AUDITED_NS = 1_000_000_000
"""The auditor notes an event of the log within this time."""


@dataclass(slots=True)
class _Commit:
    """One commit; the offset None stands for a deletion.

    done: index of its ok; a commit without an ok may take effect at any time.
    """

    offset: int | None
    began: int
    done: int | None = None


_Registers: TypeAlias = dict[tuple[str, int], list[_Commit]]


def commits(facts: Facts) -> Iterator[Violation]:
    """Committed offsets are a register: a read returns the last commit or one in flight."""
    registers = _gather_commits(facts)
    for event, table in facts.finished("fetched"):
        possible = _possible(registers[table["group"], table["key"]], event)
        if table["offset"] not in possible:
            kind = "vanished commit" if table["offset"] is None else "stale commit"
            text = f"group {table['group']} of key {table['key']} had {table['offset']}, not"
            yield Violation(kind, f"{text} {possible}", (event.index,))


def _gather_commits(facts: Facts) -> _Registers:
    """Return the writes to each register; a group's deletion writes to all of its registers."""
    registers: _Registers = defaultdict(list)
    for _, table in facts.finished("fetched", "invoke"):
        registers.setdefault((table["group"], table["key"]), [])
    for _, table in facts.finished("commit", "invoke"):
        registers.setdefault((table["group"], table["key"]), [])
    by_index: dict[int, _Commit] = {}
    failed = {each.of for each in facts.events if each.type == "fail"}
    for event in facts.events:
        table = event.value or {}
        if event.f in ("gone", "expired"):
            nothing = _Commit(None, event.index, event.index)
            _write(registers, table["group"], table.get("keys"), nothing)
        elif event.f not in ("commit", "forget"):
            continue
        elif event.type == "invoke" and event.index not in failed:
            commit = by_index[event.index] = _Commit(table.get("offset"), event.index)
            keys = [table["key"]] if "key" in table else None
            _write(registers, table["group"], keys, commit)
        elif event.type == "ok":
            by_index[event.of].done = event.index
    return registers


def _write(
    registers: _Registers, group: str, keys: Sequence[int | None] | None, commit: _Commit
) -> None:
    """Write to the registers of a group's keys; None for all registers of the group."""
    for (of_group, key), register in registers.items():
        if of_group == group and (keys is None or key in keys):
            register.append(commit)


def _possible(written: Sequence[_Commit], read: Event) -> list[int | None]:
    """Return the values that a read may give, without those surely overwritten before it began."""
    before = [c for c in written if c.done is not None and c.done < read.of]
    last_begun = max((c.began for c in before), default=-1)
    open_yet = [
        c.offset
        for c in written
        if c.began < read.index and (c.done is None or c.done >= last_begun)
    ]
    return open_yet if before else [None, *open_yet]


def generations(facts: Facts) -> Iterator[Violation]:
    """Generations rise; in each one a key has one owner; commits of former generations are refused.

    A deleted group starts again, and so does one that was moved here without members.  An operation
    that began before belongs to the former group.
    """
    gone: dict[str, int] = {}
    highest: dict[str, list[tuple[int, int]]] = defaultdict(list)
    owners: dict[tuple[str, int, int], tuple[str, str]] = {}
    for event in facts.events:
        table = event.value or {}
        if event.f in ("gone", "begun"):
            group = table["group"]
            gone[group] = event.index
            highest.pop(group, None)
            owners = {place: owners[place] for place in owners if place[0] != group}
        elif event.type != "ok" or event.of < gone.get(table.get("group", ""), -1):
            continue
        elif event.f == "joined":
            yield from _joined(event, table, highest[table["group"]], owners)
        elif event.f == "commit":
            before = _generation_before(highest[table["group"]], event.of)
            if table.get("generation", before) < before:
                text = f"generation {table['generation']} committed when {before} was complete"
                yield Violation("zombie commit", text, (event.index,))


def _joined(
    event: Event,
    table: dict[str, Any],
    highest: list[tuple[int, int]],
    owners: dict[tuple[str, int, int], tuple[str, str]],
) -> Iterator[Violation]:
    group, generation = table["group"], table["generation"]
    if generation < _generation_before(highest, event.of):
        text = f"{table['member']} joined generation {generation} of group {group} after a later"
        yield Violation("generation fell", text, (event.index,))
    highest.append((event.index, generation))
    me = (table.get("instance") or table["member"], table["member"])
    for key in table["keys"]:
        owner = owners.setdefault((group, generation, key), me)
        if owner[0] != me[0]:
            text = f"key {key} in generation {generation}: {owner[1]} and {me[1]}"
            yield Violation("two owners", text, (event.index,))


def _generation_before(joined: Sequence[tuple[int, int]], index: int) -> int:
    return max((generation for at, generation in joined if at < index), default=-1)


def static_members(facts: Facts) -> Iterator[Violation]:
    """After another member joined with its instance id, a static member is fenced."""
    ended: dict[tuple[str, str], int] = {}
    joined = [(event, table) for event, table in facts.finished("joined") if table.get("instance")]
    for event, table in joined:
        for later, other in joined:
            same = (other["group"], other["instance"]) == (table["group"], table["instance"])
            if same and other["member"] != table["member"] and later.of > event.index:
                who = (table["group"], table["member"])
                ended[who] = min(later.index, ended.get(who, later.index))
    for event in facts.events:
        if event.f not in ("commit", "heartbeat") or event.type != "ok":
            continue
        table = value_of(event)
        who = (table["group"], table.get("member", ""))
        if ended.get(who, event.of) < event.of:
            text = f"{event.process} as {who[1]}: another has its instance id"
            yield Violation("static member not fenced", text, (event.index,))


_Who: TypeAlias = tuple[str, str]
"""Group and member."""


class _Sessions:
    """When the gateway that serves a group last heard from each member.

    An unaware gateway, whose lease has expired without its knowledge (auditor.py), does not pass
    heartbeats on to the next gateway.  heard: the time of the member's last request, or None if
    perhaps only an unaware gateway got it; and the session timeout in ms.
    """

    def __init__(self) -> None:
        self.heard: dict[_Who, tuple[int | None, int]] = {}
        self._unaware: Counter[str] = Counter()
        self._aware_at: dict[str, int] = {}

    def note_unaware(self, event: Event, groups: Sequence[str]) -> None:
        """Forget the last requests: the auditor notes the end of a lease a moment too late."""
        self._unaware.update(groups)
        for who, (since, session_ms) in self.heard.items():
            if who[0] in groups and since is not None and since >= event.time_ns - AUDITED_NS:
                self.heard[who] = (None, session_ms)

    def note_aware(self, event: Event, groups: Sequence[str]) -> None:
        self._unaware.subtract(groups)
        self._aware_at.update(dict.fromkeys(groups, event.index))

    def hear(self, began: Event, who: _Who, session_ms: int) -> None:
        """Record a request that the gateway answered as a member's."""
        group_id = who[0]
        if self._unaware[group_id] or began.index < self._aware_at.get(group_id, -1):
            self.heard[who] = (None, session_ms)
            return
        since = self.heard.get(who, (None, 0))[0]
        self.heard[who] = (max(since or 0, began.time_ns), session_ms)


def expired_early(facts: Facts) -> Iterator[Violation]:
    """A member that was heard from is not removed before its session timeout is over.

    Not checked are static members, which another client with the same instance id may replace or
    remove.  A commit does not count as a sign of life: its answer does not announce a rebalance,
    and a rebalance does not wait long for a member.
    """
    sessions = _Sessions()
    for event in facts.events:
        table = event.value or {}
        who = (table.get("group", ""), table.get("member", ""))
        if event.f == "unaware":
            sessions.note_unaware(event, table["groups"])
        elif event.f == "aware":
            sessions.note_aware(event, table["groups"])
        elif event.f == "left":
            sessions.heard.pop(who, None)
        elif event.f == "joined" and table.get("instance"):
            continue
        elif event.f == "joined" and event.type == "ok" and "session_ms" in table:
            sessions.heard.pop(who, None)
            sessions.hear(facts.events[event.of], who, table["session_ms"])
        elif event.f in ("heartbeat", "commit", "joined") and event.of >= 0:
            yield from _heard(facts, event, sessions, who)


def _heard(facts: Facts, event: Event, sessions: _Sessions, who: _Who) -> Iterator[Violation]:
    since, session_ms = sessions.heard.get(who, (None, -1))
    if session_ms < 0:
        return
    if event.type == "ok" and event.f != "commit":
        sessions.hear(facts.events[event.of], who, session_ms)
    elif value_of(event).get("error") == "UNKNOWN_MEMBER_ID" and since is not None:
        silent_ms = (event.time_ns - since) / 1e6
        if silent_ms < session_ms:
            text = f"{who[1]} of group {who[0]} was put out after {silent_ms:.0f} ms"
            yield Violation("expired early", text, (event.index,))
