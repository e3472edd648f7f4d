"""Whether the gateways of a run have a listener with logins.  Drawn apart from all other plans.

The other clients of the run use the listener without logins, and notice nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from .bearer_plan import BearerPlan, draw_bearers
from .sealing_plan import SealingPlan, draw_sealing
from .token_plan import OWNERS, TokenPlan, draw_tokens

LISTENER: Final = "SASL_PLAINTEXT"
PORT: Final = 9094
STRANGERS: Final = 8
"""So many connections may be without a login at a gateway."""
MOST_PIECES: Final = 20
"""A small request or answer may travel in so many pieces, each with its own delay."""
STEADY: Final = "carol"
THROTTLED: Final = "dave"
SHARE: Final = 0.12
CALM_SHARE: Final = 0.4
_FOCUSED_SHARE: Final = 0.7
_PREFIX: Final = "listener.name.sasl_plaintext"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def password_of(user: str) -> str:
    """Return the password of a user of PLAIN, which never changes."""
    return f"password of {user}"


@dataclass(frozen=True, slots=True)
class LoginPlan:
    """is_on: some clients log in, and strangers connect without a login.

    is_calm: no fault strikes the gateways.  is_focused: few other clients work.
    session_ms: the lifetime of a session.  quota: bytes a second that THROTTLED may produce.
    tokens, sealing, bearers: see TokenPlan, SealingPlan, BearerPlan.
    """

    is_on: bool = False
    is_calm: bool = False
    is_focused: bool = False
    session_ms: int = 0
    quota: int = 0
    tokens: TokenPlan = field(default_factory=TokenPlan)
    sealing: SealingPlan = field(default_factory=SealingPlan)
    bearers: BearerPlan = field(default_factory=BearerPlan)

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways."""
        if not self.is_on:
            return {}
        names = (STEADY, THROTTLED, *(OWNERS if self.tokens.is_on else ()))
        users = " ".join(f'user_{each}="{password_of(each)}"' for each in names)
        mechanisms = "PLAIN,SCRAM-SHA-256" + (",OAUTHBEARER" if self.bearers.is_on else "")
        return {
            f"{_PREFIX}.sasl.enabled.mechanisms": mechanisms,
            f"{_PREFIX}.plain.sasl.jaas.config": f"{_MODULE} required {users};",
            "connections.max.reauth.ms": str(self.session_ms),
            "max.connections": str(8 * STRANGERS),
            **self.tokens.settings,
            **self.bearers.settings,
        }


def draw_logins(
    seed: int,
    *,
    may_draw: bool,
    is_calm: bool,
    may_focus: bool,
    has_right_clocks: bool,
    has_acls: bool,
) -> LoginPlan:
    """Draw the plan.

    may_draw: all gateways know SCRAM credentials and quotas.  may_focus: no other plan needs many
    clients.  has_acls: another plan has ACLs.
    """
    rng = Random(f"{seed}/logins")
    tokens = draw_tokens(seed, may_draw=may_draw and has_right_clocks and not has_acls)
    is_drawn = may_draw and rng.random() < (CALM_SHARE if is_calm else SHARE)
    sealing = draw_sealing(seed, may_draw=may_draw)
    bearers = draw_bearers(seed, may_draw=may_draw and has_right_clocks, is_calm=is_calm)
    if not (is_drawn or tokens.is_on or sealing.is_on or bearers.is_on):
        return LoginPlan()
    return LoginPlan(
        is_on=True,
        is_calm=is_calm and not sealing.is_on,
        is_focused=rng.random() < _FOCUSED_SHARE and may_focus,
        session_ms=rng.choice((4_000, 8_000)),
        quota=rng.choice((30, 100)),
        tokens=tokens,
        sealing=sealing,
        bearers=bearers,
    )
