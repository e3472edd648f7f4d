"""Checks of groups whose members never leave: no move of the group may make them join again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .facts import Facts, Violation, value_of
from .history import Event

_JOIN_AGAIN: Final = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"})
_NO_GENERATION: Final = -1


@dataclass(slots=True)
class _Group:
    """size: the number of members of the group.  count: of the generation, as its leader learnt it.

    joining: joins in flight.  heard: by member of the generation, when it last surely lived.
    """

    size: int
    session_ms: int = 0
    generation: int = _NO_GENERATION
    count: int = 0
    joining: set[int] = field(default_factory=set[int])
    heard: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def is_settled(self) -> bool:
        """Return whether the generation has all members, and no join is in flight."""
        return not self.joining and len(self.heard) == self.count == self.size

    def longest_silence_ms(self, now_ns: int) -> float:
        """Return for how long a member can have been silent, at most."""
        return (now_ns - min(self.heard.values())) / 1e6

    def unsettle(self) -> None:
        """Let members join again, whatever the reason."""
        self.heard.clear()
        self.count = 0


def forced_rejoins(facts: Facts) -> Iterator[Violation]:
    """While all members are heard from, and no client joins, no member is made to join again."""
    groups: dict[str, _Group] = {}
    for event in facts.events:
        table: dict[str, Any] = event.value or {}
        if event.f == "steady":
            groups.setdefault(table["group"], _Group(table["members"]))
        group = groups.get(table.get("group", ""))
        if group is None:
            continue
        if event.f == "joined":
            _join(facts, group, event)
        elif event.f == "counted" and table["generation"] == group.generation:
            group.count = table["count"]
        elif event.f == "heartbeat":
            yield from _beat(facts, group, event)


def _join(facts: Facts, group: _Group, event: Event) -> None:
    if event.type == "invoke":
        group.joining.add(event.index)
        return
    group.joining.discard(event.of)
    if event.type != "ok":
        return
    table = value_of(event)
    if table["generation"] != group.generation:
        group.generation = table["generation"]
        group.unsettle()
    group.session_ms = table["session_ms"]
    group.heard[table["member"]] = facts.events[event.of].time_ns


def _beat(facts: Facts, group: _Group, event: Event) -> Iterator[Violation]:
    if event.type == "invoke":
        return
    table = value_of(event)
    if table["generation"] != group.generation or table["member"] not in group.heard:
        return
    began_ns = facts.events[event.of].time_ns
    if event.type == "ok":
        group.heard[table["member"]] = max(group.heard[table["member"]], began_ns)
    elif table.get("error") in _JOIN_AGAIN:
        silent_ms = group.longest_silence_ms(event.time_ns)
        if group.is_settled and silent_ms < group.session_ms:
            text = f"{table['member']} of {table['group']} got {table['error']}, though all"
            yield Violation(
                "forced rejoin", f"{text} were heard of {silent_ms:.0f} ms ago", (event.index,)
            )
        group.unsettle()
