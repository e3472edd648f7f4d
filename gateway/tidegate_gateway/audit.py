"""What takes note of logins, denials and changes; see security/audit_log.py."""

from __future__ import annotations

from typing import Protocol


class Audit(Protocol):
    """Takes note of events."""

    def note(self, event: str, **facts: object) -> None:
        """Take note of one; facts: values of JSON."""
        ...
