"""What takes note of logins, denials and changes; see security/audit_log.py."""

from __future__ import annotations

from typing import Final, Protocol

MAX_ITEMS: Final = 200
"""Of a list in one event; what is beyond it is left out, and counted."""


class Audit(Protocol):
    """Takes note of events."""

    def note(self, event: str, **facts: object) -> None:
        """Take note of one; facts: values of JSON."""
        ...
