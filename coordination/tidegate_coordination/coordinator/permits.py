"""The rights for which a gateway lets a request propose.

A request's rights are looked up when it arrives.  Its proposals are decided later: if the log
hangs, seconds later.  So each proposal carries the log position at which its rights held, and fails
if ACLs changed after that (rules/security/permitted.py).  The gateway then looks the rights up
again.

The permit is a context variable, so that no handler can forget to pass it on.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class Permit(Protocol):
    """The rights of a served request.  as_of: the log position of the ACLs that give them."""

    @property
    def as_of(self) -> int:
        """See the class."""
        ...

    def renew(self, position: int) -> bool:
        """Look all rights up again with the ACLs of a log position; False if one was removed."""
        ...


PERMIT: Final[ContextVar[Permit | None]] = ContextVar("PERMIT", default=None)
"""The permit of the request that the present task answers; None if its proposals need none."""
