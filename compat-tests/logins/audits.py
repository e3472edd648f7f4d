"""The lines about logins in the audit logs of gateways.  No I/O here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Logins:
    """Counts of logins by user.  connections: new ones.  again: repeated logins of open ones.

    failed: logins that were refused, by mechanism and reason.
    """

    connections: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, lines: Iterable[str]) -> None:
        """Add the audit log of one gateway.  A connection is recognised by its address."""
        seen: set[tuple[str, str]] = set()
        for line in lines:
            facts = json.loads(line)
            if facts["event"] == "login failed":
                self.failed[f"{facts['mechanism']}: {facts['reason']}"] += 1
            if facts["event"] != "logged in":
                continue
            user = facts["principal"].removeprefix("User:")
            counts = self.again if (user, facts["peer"]) in seen else self.connections
            counts[user] += 1
            seen.add((user, facts["peer"]))
