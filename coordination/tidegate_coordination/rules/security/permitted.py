"""A proposal to which its client had a right, and which fails if ACLs have changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..proposal import ACLS, Decided, Proposal, View

Answer = TypeVar("Answer")

RIGHTS_CHANGED: Final = "rights changed since the client's were looked up"


class RightsChanged(Exception):
    """The proposal changes nothing: look up the client's rights again."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A proposal to which a client had the right at a log position.  Never sent."""

    proposal: Proposal[Any]
    as_of: int

    @property
    def reads(self) -> frozenset[str]:
        """The scopes of the proposal, and the ACLs."""
        return self.proposal.reads | {ACLS}

    @property
    def writes(self) -> frozenset[str]:
        """The scopes of the proposal."""
        return self.proposal.writes

    def decide(self, view: View) -> Decided[Any]:
        """Decide the proposal.

        Raises:
          RightsChanged: see there.
        """
        if view.state.acls.changed_at > self.as_of:
            raise RightsChanged(RIGHTS_CHANGED)
        return self.proposal.decide(view)


def permitted(proposal: Proposal[Answer], as_of: int) -> Proposal[Answer]:
    """Return a proposal with the condition that no ACL changed after a log position; 0: none."""
    return Permitted(proposal, as_of) if as_of else proposal
