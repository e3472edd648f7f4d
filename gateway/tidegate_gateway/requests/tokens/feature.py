"""The feature of delegation tokens (KIP-48): its APIs, and the removal of expired ones."""

from __future__ import annotations

from collections.abc import Callable

from ...feature import Feature, Ground, Row, Task, always
from ...security.guard import open_to_all
from ...security.tokens.secrets import TokenSecrets
from ...settings.broker_settings import BrokerSettings
from .delegation_tokens import (
    CreateDelegationToken,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
    TokenParts,
    TokenTimes,
)
from .guards import guard_create_delegation_token
from .token_upkeep import TokenUpkeep


def tokens_feature(
    ground: Ground, secrets: TokenSecrets, may_expire: Callable[[], bool]
) -> Feature:
    """Return the feature.  may_expire: returns whether this gateway removes expired tokens."""
    environment, settings = ground.environment, ground.settings
    parts = TokenParts(
        ground.coordinator,
        secrets,
        _times(settings),
        environment.random_bytes,
        environment.wall_clock,
    )
    removal = TokenUpkeep(
        ground.coordinator,
        may_expire,
        ground.upkeep,
        settings.int("delegation.token.expiry.check.interval.ms") / 1000,
    )
    return Feature(
        "delegation tokens",
        (
            Row(
                CreateDelegationToken(parts),
                guard_create_delegation_token,
                is_audited=True,
                proposes=always,
            ),
            # These three need no guard; see guards.py.
            Row(RenewDelegationToken(parts), open_to_all, is_audited=True),
            Row(ExpireDelegationToken(parts), open_to_all, is_audited=True),
            Row(DescribeDelegationToken(parts), open_to_all),
        ),
        (Task("remove expired delegation tokens", removal.run),),
    )


def _times(settings: BrokerSettings) -> TokenTimes:
    return TokenTimes(
        lifetime_ms=settings.int("delegation.token.max.lifetime.ms"),
        expiry_ms=settings.int("delegation.token.expiry.time.ms"),
    )
