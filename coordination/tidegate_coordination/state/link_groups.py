"""Consumer groups of a link's source: which ones gateways forward, and which have moved here.

A link names groups by their ids, or by what these begin with.  Gateways forward such a group to the
source until it is moved.  A group that is known here already is this cluster's.

A fence holds groups while they move.  It is open until every gateway has reached it; then the
groups are moved, or unfenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ..events.links import (
    ForwardedMember,
    GroupFenceReached,
    GroupsFenced,
    GroupsMoved,
    GroupsUnfenced,
)
from .broken import expect
from .groups import GroupTable
from .links import LinkTable

ANY_END: Final = "*"
"""At the end of a name: all groups whose ids begin so."""


@dataclass(slots=True)
class GroupFence:
    """awaited: the incarnations of gateways that may have commits without an answer yet.

    members: that the others have forwarded.
    """

    number: int
    link: str
    groups: tuple[str, ...]
    awaited: set[int]
    members: list[ForwardedMember] = field(default_factory=list[ForwardedMember])


class LinkGroupTable:
    """See the module's head.

    moved: the groups that have moved, by link.  version: rises with every change, for caches.
    """

    def __init__(self, links: LinkTable, groups: GroupTable) -> None:
        self.fences: dict[int, GroupFence] = {}
        self.moved: dict[str, set[str]] = {}
        self.next_fence = 1
        self.version = 0
        self._links: Final = links
        self._groups: Final = groups
        self._fence_of: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.fences or self.moved or self.next_fence > 1)

    def link_of(self, group_id: str) -> str:
        """Return the link to whose source gateways forward a group; "" if it is this cluster's."""
        for link in self._links.with_groups:
            if is_named(link.groups, group_id):
                return "" if self._is_here(group_id) else link.name
        return ""

    def _is_here(self, group_id: str) -> bool:
        has_moved = any(group_id in groups for groups in self.moved.values())
        return has_moved or self._groups.get(group_id) is not None

    def of_link(self, link: str) -> list[GroupFence]:
        """Return the fences of groups of a link."""
        return [each for each in self.fences.values() if each.link == link]

    def fence_of(self, group_id: str) -> GroupFence | None:
        """Return the fence that holds a group."""
        number = self._fence_of.get(group_id)
        return self.fences[number] if number is not None else None

    def fold_fenced(self, event: GroupsFenced, gateways: Iterable[int]) -> None:
        """Begin a move.  gateways: the incarnations that live now."""
        expect(event.fence == self.next_fence, f"group fence {event.fence}")
        expect(not self._fence_of.keys() & set(event.groups), "a group has a fence")
        self._links.expect_link(event.link)
        fence = GroupFence(event.fence, event.link, event.groups, set(gateways))
        self.fences[event.fence] = fence
        self._fence_of.update(dict.fromkeys(event.groups, event.fence))
        self.next_fence += 1
        self.version += 1

    def fold_reached(self, event: GroupFenceReached) -> None:
        """A gateway forwards nothing of the groups any more."""
        fence = self._fence(event.fence)
        fence.awaited.discard(event.incarnation)
        fence.members += event.members
        self.version += 1

    def fold_unfenced(self, event: GroupsUnfenced) -> None:
        """The groups stay at their source."""
        self._forget(event.fence)

    def fold_moved(self, event: GroupsMoved) -> None:
        """The groups are this cluster's."""
        fence = self._fence(event.fence)
        self.moved.setdefault(fence.link, set()).update(fence.groups)
        self._forget(event.fence)

    def lift_all(self) -> None:
        """Forget all fences: the log was restored, and that they were wanted is long ago."""
        for number in list(self.fences):
            self._forget(number)

    def forget_link(self, link: str) -> None:
        """The link is gone, and with it what it moved."""
        self.moved.pop(link, None)
        for each in self.of_link(link):
            self._forget(each.number)
        self.version += 1

    def _fence(self, number: int) -> GroupFence:
        expect(number in self.fences, f"unknown group fence {number}")
        return self.fences[number]

    def _forget(self, number: int) -> None:
        fence = self._fence(number)
        del self.fences[number]
        for group_id in fence.groups:
            del self._fence_of[group_id]
        self.version += 1

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return {
            "next": self.next_fence,
            "fences": [
                [
                    each.number,
                    each.link,
                    list(each.groups),
                    sorted(each.awaited),
                    [list(msgspec.structs.astuple(member)) for member in each.members],
                ]
                for each in self.fences.values()
            ],
            "moved": [[link, sorted(groups)] for link, groups in sorted(self.moved.items())],
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer; {} leaves it empty."""
        self.next_fence = table.get("next", 1)
        for number, link, groups, awaited, members in table.get("fences", ()):
            known = [ForwardedMember(*each) for each in members]
            fence = GroupFence(number, link, tuple(groups), set(awaited), known)
            self.fences[number] = fence
            self._fence_of.update(dict.fromkeys(fence.groups, fence.number))
        self.moved = {link: set(groups) for link, groups in table.get("moved", ())}


def is_named(names: Iterable[str], group_id: str) -> bool:
    """Return whether one of a link's names stands for a group."""
    return any(
        group_id.startswith(each[:-1]) if each.endswith(ANY_END) else group_id == each
        for each in names
    )


def overlap(one: str, other: str) -> bool:
    """Return whether two names of links may stand for the same group."""
    stems = one.removesuffix(ANY_END), other.removesuffix(ANY_END)
    return is_named((one,), stems[1]) or is_named((other,), stems[0])
