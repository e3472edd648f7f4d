"""Creating, renewing, expiring and removing delegation tokens (KIP-48, KIP-373).

The gateway has checked before who may create a token for whom, and has found the token that a
secret belongs to: neither a proposal nor the log holds a secret.  The rule checks that the
principal may renew a token, at the position that the proposal gets.  A time is the earlier one of
log time and the clocks' median, because log time stays ahead if a clock was ahead once.  So with
three or more gateways, one wrong clock neither makes a token that lasts too long, nor ends a token
too early.  With two gateways the slower clock counts, with one gateway its own clock.  So before it
proposes a renewal, a gateway refuses it if the token has expired by its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ...events.metadata_versions import DELEGATION_TOKENS
from ...events.security import DelegationTokenSet, DelegationTokensRemoved
from ...security.tokens import DelegationToken
from ..proposal import TOKENS, Decided, View

MAX_TOKEN_BYTES: Final = 8 << 10
"""The most bytes of a token with its renewers; Kafka bounds neither their number nor their names.
"""
MAX_RENEWERS: Final = 100
"""Of a token.  A text takes more memory than its bytes in the log, most of all if it is short."""
MAX_OF_REQUESTER: Final = 1_000
"""Tokens that one principal may have created.  A client with a login needs no right to create
tokens, so Kafka lets any client fill the memory of all brokers.
"""
MAX_BYTES_OF_REQUESTER: Final = 1 << 20
"""The most memory that the tokens of one requester take in each gateway."""
MAX_REMOVED: Final = 1_000
"""Expired tokens that one entry removes; Kafka has the same bound."""
_MAX_TIME: Final = (1 << 63) - 1
_SCOPE: Final = frozenset({TOKENS})


class TokenRefusal(Enum):
    """Why a token stays as it is."""

    NOT_YET = "the cluster's metadata.version is too low"
    NOT_FOUND = "there is no such token"
    NOT_ALLOWED = "the principal is neither the token's owner nor one of its renewers"
    EXPIRED = "the token has expired"
    TOO_LARGE = "the names of owner and renewers are too long or too many"
    TOO_MANY = "the principal has created too many tokens"


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create a token.  Answer: the token, or why there is none.

    token_id: random.  lifetime_ms: at most, however often it is renewed.  expiry_ms: without a
    renewal.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    lifetime_ms: int
    expiry_ms: int
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[DelegationToken | TokenRefusal]:
        """See the class."""
        now_ms = _now_ms(view)
        max_ms = _later(now_ms, self.lifetime_ms)
        expires_ms = min(max_ms, _later(now_ms, self.expiry_ms))
        names = self.owner, self.requester, self.renewers
        token = DelegationToken(self.token_id, *names, now_ms, max_ms, expires_ms)
        refusal = self._refusal(view, token)
        if refusal is not None:
            return Decided((), refusal)
        return Decided((DelegationTokenSet(token),), token)

    def _refusal(self, view: View, token: DelegationToken) -> TokenRefusal | None:
        if view.state.metadata_version < DELEGATION_TOKENS:
            return TokenRefusal.NOT_YET
        if len(token.renewers) > MAX_RENEWERS or token.size_bytes > MAX_TOKEN_BYTES:
            return TokenRefusal.TOO_LARGE
        table = view.state.tokens
        if table.requested_by(self.requester) >= MAX_OF_REQUESTER:
            return TokenRefusal.TOO_MANY
        total_bytes = table.bytes_requested_by(self.requester) + token.memory_bytes
        return TokenRefusal.TOO_MANY if total_bytes > MAX_BYTES_OF_REQUESTER else None


@dataclass(frozen=True, slots=True)
class RenewToken:
    """Let a token expire later, but at most at its max_ms; a short period lets it expire sooner.

    Answer: when it expires, or why it was not renewed.  period_ms: the time to expiry, from now on.
    """

    token_id: str
    principal: str
    period_ms: int
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[int | TokenRefusal]:
        """See the class."""
        token = view.state.tokens.get(self.token_id)
        if token is None:
            return Decided((), TokenRefusal.NOT_FOUND)
        if token.is_expired(_now_ms(view)):
            return Decided((), TokenRefusal.EXPIRED)
        if not token.is_renewed_by(self.principal):
            return Decided((), TokenRefusal.NOT_ALLOWED)
        return _expiring_at(token, _later(_now_ms(view), self.period_ms))


@dataclass(frozen=True, slots=True)
class ExpireToken:
    """Let a token expire at a time, or remove it.

    Answer: when it expires, or why nothing changed.  period_ms: the time to expiry, from now on; if
    below 0, the token is removed, even if it has expired.
    """

    token_id: str
    principal: str
    period_ms: int
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[int | TokenRefusal]:
        """See the class."""
        token = view.state.tokens.get(self.token_id)
        if token is None:
            return Decided((), TokenRefusal.NOT_FOUND)
        if not token.is_renewed_by(self.principal):
            return Decided((), TokenRefusal.NOT_ALLOWED)
        if self.period_ms < 0:
            removed = DelegationTokensRemoved((self.token_id,))
            return Decided((removed,), _now_ms(view))
        if token.is_expired(_now_ms(view)):
            return Decided((), TokenRefusal.EXPIRED)
        return _expiring_at(token, _later(_now_ms(view), self.period_ms))


@dataclass(frozen=True, slots=True)
class RemoveExpiredTokens:
    """Remove tokens that have expired, MAX_REMOVED at most.

    Answer: whether to propose it again, as one event does not hold all.
    """

    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        expired = islice(view.state.tokens.expired(_now_ms(view)), MAX_REMOVED)
        ids = tuple(each.token_id for each in expired)
        return Decided((DelegationTokensRemoved(ids),) if ids else (), len(ids) == MAX_REMOVED)


def _expiring_at(token: DelegationToken, time_ms: int) -> Decided[int | TokenRefusal]:
    expires_ms = min(token.max_ms, time_ms)
    return Decided((DelegationTokenSet(replace(token, expires_ms=expires_ms)),), expires_ms)


def _now_ms(view: View) -> int:
    writer = view.appender or view.writer
    return min(view.log_time_ms, view.state.gateways.median_clock_ms(writer, view.clock_ms))


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _MAX_TIME)
