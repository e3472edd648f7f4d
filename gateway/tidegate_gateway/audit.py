"""The interface to an audit log: logins, denials and changes; see security/audit_log.py."""

from __future__ import annotations

from typing import Final, Protocol

MAX_ITEMS: Final = 200
"""The most items of a list in one event; further items are left out, and counted."""


class Audit(Protocol):
    """Takes note of events."""

    def note(self, event: str, **facts: object) -> None:
        """Take note of one; facts: values of JSON."""
        ...


class StoredAudit(Audit, Protocol):
    """Takes note of events, and says when they are stored."""

    async def written(self) -> None:
        """Wait until all that was noted is on the disk, or cannot be written now."""
        ...


class NotedByCall:
    """Takes note of the events of one request, whose answer waits until they are on the disk."""

    __slots__ = ("_audit", "_has_noted")

    def __init__(self, audit: StoredAudit) -> None:
        self._audit = audit
        self._has_noted = False

    def note(self, event: str, **facts: object) -> None:
        """See Audit."""
        self._has_noted = True
        self._audit.note(event, **facts)

    async def written(self) -> None:
        """See StoredAudit; returns at once if the request noted nothing."""
        if self._has_noted:
            await self._audit.written()
