"""Whether clients log in by tokens of an identity provider (OAUTHBEARER); such a run has all that
log in.  Drawn apart from all other plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

ISSUER: Final = "https://provider.simulated"
AUDIENCE: Final = "gateways"
SKEW_SECONDS: Final = 2
REFRESH_SECONDS: Final = 10
SHARE: Final = 0.08
_FAILURES: Final = (0.1, 0.4)
_HANGS: Final = (0.0, 0.2)


@dataclass(frozen=True, slots=True)
class BearerPlan:
    """failures, hangs: the shares of a gateway's reads of keys that fail, or get no answer."""

    is_on: bool = False
    failures: float = 0.0
    hangs: float = 0.0

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways."""
        if not self.is_on:
            return {}
        return {
            "sasl.oauthbearer.jwks.endpoint.url": f"{ISSUER}/keys",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": str(1_000 * REFRESH_SECONDS),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": str(SKEW_SECONDS),
        }


def draw_bearers(seed: int, *, may_draw: bool, is_calm: bool) -> BearerPlan:
    """Draw the plan; may_draw: clients may log in, and all clocks are right."""
    # The number in this text keeps the draws of seeds that tests name.
    rng = Random(f"{seed}/identity provider 62")
    if rng.random() >= SHARE or not may_draw:
        return BearerPlan()
    if is_calm:
        return BearerPlan(is_on=True)
    return BearerPlan(is_on=True, failures=rng.choice(_FAILURES), hangs=rng.choice(_HANGS))
