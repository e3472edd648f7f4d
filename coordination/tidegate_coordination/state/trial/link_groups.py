"""The part of a trial for groups that move from a link's source; see events.py."""

from __future__ import annotations

from typing import Final

from ...events import links as kev
from ..broken import expect
from ..tables import StateTables
from .once import Once, only_once


class LinkGroupTrial:
    """See the module's head.  once: facts that occurred in the entry, and may not again."""

    def __init__(self, state: StateTables, once: Once) -> None:
        self._state: Final = state
        self._once: Final = once

    def fenced(self, event: kev.GroupsFenced) -> None:
        """Check the fence's number, and that its groups have no fence."""
        table = self._state.link_groups
        self._state.links.expect_link(event.link)
        expect(("end of link", event.link) not in self._once, f"link {event.link} is removed")
        expect(event.fence == table.next_fence, f"group fence {event.fence}")
        only_once(self._once, "new group fence", event.fence)
        for group_id in event.groups:
            only_once(self._once, "fence of group", group_id)
            expect(table.fence_of(group_id) is None, f"group {group_id} has a fence")

    def joined(self, number: int) -> None:
        """Check that the fence exists, and that its groups move with no other topics."""
        self._goes_on(number)
        only_once(self._once, "topics of group fence", number)
        expect(not self._state.link_groups.fences[number].switch, f"group fence {number} is taken")

    def reached(self, event: kev.GroupFenceReached) -> None:
        """Check that the fence exists."""
        self._goes_on(event.fence)

    def ended(self, event: kev.GroupsUnfenced | kev.GroupsMoved) -> None:
        """Check that the fence exists, and ends once."""
        self._goes_on(event.fence)
        only_once(self._once, "end of group fence", event.fence)

    def _goes_on(self, number: int) -> None:
        table = self._state.link_groups
        expect(number in table.fences, f"unknown group fence {number}")
        expect(("end of group fence", number) not in self._once, f"group fence {number} has ended")
        link = table.fences[number].link
        expect(("end of link", link) not in self._once, f"link {link} is removed")
