"""Notes the rights that allowed a request, so that they are checked again when it is decided.

See tidegate_coordination/coordinator/permits.py.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tidegate_coordination.coordinator.permits import PERMIT
from tidegate_coordination.security.acls import Operation, ResourceType

from ..network.call import Rights


class NotedRights:
    """A client's rights, which notes the rights that one request used.

    as_of: see Permit.
    """

    __slots__ = ("_needed", "_rights", "as_of")

    def __init__(self, rights: Rights, as_of: int) -> None:
        self.as_of = as_of
        self._rights = rights
        self._needed: Final[set[tuple[Operation, ResourceType, str | None]]] = set()

    @property
    def principal(self) -> str:
        """See Rights."""
        return self._rights.principal

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        return self._noted(operation, kind, name, self._rights.may(operation, kind, name))

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        return self._noted(operation, kind, name, self._rights.sees(operation, kind, name))

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """See Rights."""
        return self._noted(operation, kind, None, self._rights.may_any(operation, kind))

    def _noted(
        self, operation: Operation, kind: ResourceType, name: str | None, found: bool
    ) -> bool:
        if found:
            self._needed.add((operation, kind, name))
        return found

    def renew(self, position: int) -> bool:
        """See Permit."""
        if not all(self._holds(*each) for each in self._needed):
            return False
        self.as_of = position
        return True

    def _holds(self, operation: Operation, kind: ResourceType, name: str | None) -> bool:
        if name is None:
            return self._rights.may_any(operation, kind)
        return self._rights.may(operation, kind, name)


@contextmanager
def proposing_by(rights: NotedRights) -> Generator[None]:
    """Make the proposals of this block valid only as long as the client has the noted rights."""
    token = PERMIT.set(rights)
    try:
        yield
    finally:
        PERMIT.reset(token)
