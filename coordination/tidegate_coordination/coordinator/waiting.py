"""A proposal that waits for its answer, and the reasons for which it may get none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ..rules.proposal import Proposal
from ..rules.security.permitted import permitted

Answer = TypeVar("Answer")


class CoordinatorUnavailable(Exception):
    """The metadata log did not answer in time; the outcome is unknown.

    Answer a retriable error, or close the connection; never guess.
    """


class ProposalFailed(Exception):
    """The proposal could not be decided, or is too large for an entry.

    The proposal changed nothing.
    """


Failure: TypeAlias = ProposalFailed | CoordinatorUnavailable
"""Why a proposal has no answer: it changed nothing, or its outcome stays unknown."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[Answer]):
    """A proposal on its way, and the callbacks for its answer.

    is_withdrawn: its caller no longer waits.  before_ms: once log time is later than that, the
    proposal fails; 0 for no limit.  rights_as_of: if ACLs changed after that log position, the
    proposal fails; 0 for no such condition.
    """

    proposal: Proposal[Answer]
    deliver: Callable[[Answer], None]
    fail: Callable[[Failure], None]
    is_withdrawn: bool = False
    before_ms: int = 0
    rights_as_of: int = 0

    @property
    def to_decide(self) -> Proposal[Answer]:
        """Return the proposal with the condition of its rights."""
        if not self.rights_as_of:
            return self.proposal
        return permitted(self.proposal, self.rights_as_of)
