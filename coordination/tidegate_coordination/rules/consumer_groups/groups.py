"""Proposals about a group itself by the holder of the group's claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...events.cluster import Event
from ...events.groups import GroupChanged, GroupDeleted
from ..proposal import STAGED, Decided, View, claim_scope

GROUP_CLAIMS = "group/"
"""The prefix of the names of all groups' claims."""


def group_claim(group_id: str) -> str:
    """Return the name of the claim that guards a group."""
    return f"{GROUP_CLAIMS}{group_id}"


def group_scope(group_id: str) -> str:
    """Return the scope of a group's claim and members."""
    return claim_scope(group_claim(group_id))


def offsets_scope(group_id: str) -> str:
    """Return the scope of a group's offsets, separate so that commits may share an entry."""
    return f"offsets of group {group_id}"


def holds_claim(view: View, group_id: str, claim_epoch: int) -> bool:
    """Return whether the writer still holds the claim under which it decided.

    No gateway may write a group that gateways forward to the source of a link.
    """
    claim = view.state.claims.get(group_claim(group_id))
    is_held = claim is not None and claim == (view.writer, claim_epoch)
    return is_held and not view.state.link_groups.link_of(group_id)


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Make a group's state durable.  Answer: False when the claim is lost."""

    record: GroupChanged

    @property
    def reads(self) -> frozenset[str]:
        """The group."""
        return frozenset({group_scope(self.record.group_id)})

    @property
    def writes(self) -> frozenset[str]:
        """The group."""
        return frozenset({group_scope(self.record.group_id)})

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        if not holds_claim(view, self.record.group_id, self.record.claim_epoch):
            return Decided((), False)
        last = view.state.groups.get(self.record.group_id)
        if last is not None and self.record.generation < last.generation:
            # The group's machine lacks entries of the log: restore it, as after a lost claim.
            return Decided((), False)
        return Decided((self.record,), True)


class Deletion(Enum):
    """The result of a group's deletion."""

    DELETED = "deleted"
    UNKNOWN = "there is no such group"
    HAS_MEMBERS = "the group has members"
    NOT_HOLDER = "another gateway serves the group"


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group without members, its offsets, also those only staged, and its claim.

    The caller knows that no member is about to join.  Only the holder of the claim may propose it,
    or any gateway if no live gateway holds the claim.
    """

    group_id: str

    @property
    def reads(self) -> frozenset[str]:
        """The group, and what deleting it forgets."""
        return frozenset({group_scope(self.group_id), offsets_scope(self.group_id), STAGED})

    @property
    def writes(self) -> frozenset[str]:
        """The group, and what deleting it forgets."""
        return frozenset({group_scope(self.group_id), offsets_scope(self.group_id)})

    def decide(self, view: View) -> Decided[Deletion]:
        """See the class."""
        group = view.state.groups.get(self.group_id)
        if held_by_another(view, self.group_id):
            return Decided((), Deletion.NOT_HOLDER)
        if group is None:
            return Decided((), Deletion.UNKNOWN)
        if group.members:
            return Decided((), Deletion.HAS_MEMBERS)
        events: list[Event] = [GroupDeleted(self.group_id)]
        return Decided(events, Deletion.DELETED)


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Release the writer's claim on a group that never became durable.  Answer: None.

    Otherwise every made-up group id would leave a claim for ever.
    """

    group_id: str

    @property
    def reads(self) -> frozenset[str]:
        """The group, and what deleting it forgets."""
        return frozenset({group_scope(self.group_id), offsets_scope(self.group_id), STAGED})

    @property
    def writes(self) -> frozenset[str]:
        """The group, and what deleting it forgets."""
        return frozenset({group_scope(self.group_id), offsets_scope(self.group_id)})

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        claim = view.state.claims.get(group_claim(self.group_id))
        held = claim is not None and claim.incarnation == view.writer
        if not held or view.state.groups.get(self.group_id) is not None:
            return Decided((), None)
        return Decided((GroupDeleted(self.group_id),), None)


def held_by_another(view: View, group_id: str) -> bool:
    """Return whether a live gateway other than the writer serves the group."""
    claim = view.state.claims.get(group_claim(group_id))
    if claim is None or claim.incarnation == view.writer:
        return False
    return view.state.gateways.is_live(claim.incarnation)
