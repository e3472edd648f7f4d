"""Consumer groups and transactional ids of a link's source: those that gateways forward, and those
that have moved here.

A link names groups by their ids, or by prefixes of ids.  Gateways forward such a group to the
source until it is moved.  A group that this cluster knows already is this cluster's own.  The same
holds for transactional ids, which move by the names that the link has for them.

A fence holds groups and ids while they move.  The fence is open until every gateway has reached it;
then groups and ids are moved, or unfenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ...events.links import (
    ForwardedMember,
    GroupFenceReached,
    GroupsFenced,
    GroupsMoved,
    GroupsUnfenced,
)
from ..broken import expect
from ..groups import GroupTable
from ..transactions.table import TransactionTable
from .links import LinkTable

ANY_END: Final = "*"
"""At the end of a name, it stands for all groups whose ids begin with the name."""


@dataclass(slots=True)
class GroupFence:
    """awaited: the incarnations of gateways that may have commits without an answer yet.

    ids: names of transactional ids, as the link has them.  members: members of the groups that the
    other gateways have forwarded.  switch: the fence of the topics with which the groups move; 0:
    none yet.
    """

    number: int
    link: str
    groups: tuple[str, ...]
    awaited: set[int]
    members: list[ForwardedMember] = field(default_factory=list[ForwardedMember])
    ids: tuple[str, ...] = ()
    switch: int = 0


class LinkGroupTable:
    """See the module's head.

    moved, moved_ids: the groups that have moved, and the names of transactional ids, by link.
    version: rises with every change, for caches.
    """

    def __init__(
        self, links: LinkTable, groups: GroupTable, transactions: TransactionTable
    ) -> None:
        self.fences: dict[int, GroupFence] = {}
        self.moved: dict[str, set[str]] = {}
        self.moved_ids: dict[str, set[str]] = {}
        self.next_fence = 1
        self.version = 0
        self._links: Final = links
        self._groups: Final = groups
        self._transactions: Final = transactions
        self._fence_of: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.fences or self.moved or self.moved_ids or self.next_fence > 1)

    def link_of(self, group_id: str) -> str:
        """Return the link to whose source gateways forward a group; "" if it is this cluster's."""
        for link in self._links.with_groups:
            if is_named(link.groups, group_id):
                return "" if self._is_here(group_id) else link.name
        return ""

    def _is_here(self, group_id: str) -> bool:
        has_moved = any(group_id in groups for groups in self.moved.values())
        return has_moved or self._groups.get(group_id) is not None

    def link_of_id(self, transactional_id: str) -> str:
        """Return the link to whose source gateways forward a transactional id; "" if to none."""
        for link in self._links.with_ids:
            if is_named(link.transactional_ids, transactional_id):
                is_here = self._is_id_here(transactional_id)
                return "" if is_here else link.name
        return ""

    def _is_id_here(self, transactional_id: str) -> bool:
        has_moved = any(is_named(names, transactional_id) for names in self.moved_ids.values())
        return has_moved or self._transactions.get(transactional_id) is not None

    def fence_of_id(self, transactional_id: str) -> GroupFence | None:
        """Return the fence that holds a transactional id."""
        for fence in self.fences.values():
            if fence.ids and is_named(fence.ids, transactional_id):
                return fence
        return None

    def of_link(self, link: str) -> list[GroupFence]:
        """Return the fences of groups of a link."""
        return [each for each in self.fences.values() if each.link == link]

    def fence_of(self, group_id: str) -> GroupFence | None:
        """Return the fence that holds a group."""
        number = self._fence_of.get(group_id)
        return self.fences[number] if number is not None else None

    def fold_fenced(self, event: GroupsFenced, gateways: Iterable[int]) -> None:
        """Begin a move.  gateways: the live incarnations."""
        expect(event.fence == self.next_fence, f"group fence {event.fence}")
        expect(not self._fence_of.keys() & set(event.groups), "a group has a fence")
        self._links.expect_link(event.link)
        fence = GroupFence(
            event.fence, event.link, event.groups, set(gateways), ids=event.transactional_ids
        )
        self.fences[event.fence] = fence
        self._fence_of.update(dict.fromkeys(event.groups, event.fence))
        self.next_fence += 1
        self.version += 1

    def fold_joined(self, number: int, switch: int) -> None:
        """The groups and ids of a fence move with topics."""
        fence = self._fence(number)
        expect(not fence.switch, f"group fence {number} has topics already")
        fence.switch = switch
        self.version += 1

    def fold_reached(self, event: GroupFenceReached) -> None:
        """A gateway forwards no more requests of the groups."""
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
        if fence.groups:
            self.moved.setdefault(fence.link, set()).update(fence.groups)
        if fence.ids:
            self.moved_ids.setdefault(fence.link, set()).update(fence.ids)
        self._forget(event.fence)

    def lift_all(self) -> None:
        """Forget all fences: the log was restored, so they may be long outdated."""
        for number in list(self.fences):
            self._forget(number)

    def forget_link(self, link: str) -> None:
        """Forget a link, its fences and the groups and ids that it moved."""
        self.moved.pop(link, None)
        self.moved_ids.pop(link, None)
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
                    list(each.ids),
                    each.switch,
                ]
                for each in self.fences.values()
            ],
            "moved": [[link, sorted(groups)] for link, groups in sorted(self.moved.items())],
            "ids": [[link, sorted(names)] for link, names in sorted(self.moved_ids.items())],
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer; {} leaves it empty."""
        self.next_fence = table.get("next", 1)
        for number, link, groups, awaited, members, *later in table.get("fences", ()):
            known = [ForwardedMember(*each) for each in members]
            fence = GroupFence(number, link, tuple(groups), set(awaited), known)
            if later:
                fence.ids, fence.switch = tuple(later[0]), later[1]
            self.fences[number] = fence
            self._fence_of.update(dict.fromkeys(fence.groups, fence.number))
        self.moved = {link: set(groups) for link, groups in table.get("moved", ())}
        self.moved_ids = {link: set(names) for link, names in table.get("ids", ())}


def is_named(names: Iterable[str], group_id: str) -> bool:
    """Return whether one of a link's names or prefixes matches a group."""
    return any(
        group_id.startswith(each[:-1]) if each.endswith(ANY_END) else group_id == each
        for each in names
    )


def overlap(one: str, other: str) -> bool:
    """Return whether two such names may match the same group."""
    stems = one.removesuffix(ANY_END), other.removesuffix(ANY_END)
    return is_named((one,), stems[1]) or is_named((other,), stems[0])
