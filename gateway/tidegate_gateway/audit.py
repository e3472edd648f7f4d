"""The interface to an audit log: logins, denials and changes; see security/audit_log.py."""

from __future__ import annotations

from typing import Final, Protocol

MAX_ITEMS: Final = 200
"""The most items of a list in one event; further items are left out, and counted."""


class Audit(Protocol):
    """Writes events to the audit log."""

    def note(self, event: str, **facts: object) -> None:
        """Note an event; facts: its further values, as JSON has them."""
        ...


class StoredAudit(Audit, Protocol):
    """Writes events to the audit log, and says when they are on the disk."""

    async def written(self) -> None:
        """Wait until all noted events are on the disk, or writing has failed."""
        ...


class NotedByCall:
    """Notes the events of one request; its answer waits until they are on the disk."""

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
