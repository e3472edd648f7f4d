"""Whether clients have delegation tokens; a run with tokens has all clients that log in.

Drawn apart from all other plans.  Tokens last for seconds, and a principal may create few of them,
so that runs reach both bounds.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final
from unittest.mock import patch

from tidegate_coordination.rules.security import tokens

OWNERS: Final = ("alice", "bob")
"""They log in by PLAIN, and create tokens; bob may create them for alice, too."""
ROOT: Final = "User:root"
"""Has the rights that no other user shall have; see logins/token_keeper.py."""
MOST_OF_REQUESTER: Final = 5
SHARE: Final = 0.08
_KEY: Final = "the key of the simulated cluster's tokens"
_CHECK_MS: Final = 5_000
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def owned_topic(user: str) -> str:
    """Return a topic that only one user may see, which shows who a client is."""
    return f"of {user}".replace(" ", "-")


@dataclass(frozen=True, slots=True)
class TokenPlan:
    """lifetime_ms: the maximum age of a token; 0: there are no tokens.

    expiry_ms: how long a token is valid without a renewal.
    """

    lifetime_ms: int = 0
    expiry_ms: int = 0

    @property
    def is_on(self) -> bool:
        """Return whether there are tokens."""
        return self.lifetime_ms > 0

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways."""
        if not self.is_on:
            return {}
        return {
            **_AUTHORIZER,
            "delegation.token.secret.key": _KEY,
            "delegation.token.max.lifetime.ms": str(self.lifetime_ms),
            "delegation.token.expiry.time.ms": str(self.expiry_ms),
            "delegation.token.expiry.check.interval.ms": str(_CHECK_MS),
        }

    @contextmanager
    def hold(self) -> Generator[None]:
        """Let a principal create few tokens inside the context."""
        most = MOST_OF_REQUESTER if self.is_on else tokens.MAX_OF_REQUESTER
        with patch.object(tokens, "MAX_OF_REQUESTER", most):
            yield


def draw_tokens(seed: int, *, may_draw: bool) -> TokenPlan:
    """Draw it; may_draw: clients may log in, all clocks are right, and no other plan has ACLs."""
    # The number in this text keeps the draws of seeds that tests name.
    rng = Random(f"{seed}/delegation tokens 7")
    if not may_draw or rng.random() >= SHARE:
        return TokenPlan()
    return TokenPlan(rng.choice((20_000, 60_000)), rng.choice((6_000, 12_000)))
