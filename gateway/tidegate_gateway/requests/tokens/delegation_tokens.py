"""CreateDelegationToken 1 to 3, RenewDelegationToken 1 to 2, ExpireDelegationToken 1 to 2 and
DescribeDelegationToken 1 to 3 (KIP-48, KIP-373).

A client that has not logged in, or has logged in by a token, gets
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.  If `delegation.token.secret.key` is not set, all other
clients get DELEGATION_TOKEN_AUTH_DISABLED.  guards.py checks the rights to create tokens for other
owners, and to see others' tokens.

Differs from Kafka: an owner is a user, just as a renewer is, since a client that logs in by a token
is a user.  There are limits on the size of a token and the number of its renewers, and on all
tokens that a principal created (POLICY_VIOLATION).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import ClassVar, Final, NamedTuple

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.security.tokens import (
    MAX_RENEWERS,
    CreateToken,
    ExpireToken,
    RenewToken,
    TokenRefusal,
)
from tidegate_coordination.security.tokens import USER, DelegationToken
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_delegation_token as create
from tidegate_protocol.messages import describe_delegation_token as describe
from tidegate_protocol.messages import expire_delegation_token as expire
from tidegate_protocol.messages import renew_delegation_token as renew

from ...network.call import Call, Peer
from ...security.tokens.ends import judging_ms
from ...security.tokens.secrets import SECRETS_A_TURN, TokenFinder, TokenSecrets, new_token_id
from ...topics.client_acts import Act, tell_act
from .answers import no_time, owner_of, refused_creation, requester_in, type_and_name
from .guards import sees_token

_CODES: Final = {
    TokenRefusal.NOT_YET: ErrorCode.UNSUPPORTED_VERSION,
    TokenRefusal.NOT_FOUND: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    TokenRefusal.NOT_ALLOWED: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    TokenRefusal.EXPIRED: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    TokenRefusal.TOO_LARGE: ErrorCode.POLICY_VIOLATION,
    TokenRefusal.TOO_MANY: ErrorCode.POLICY_VIOLATION,
}
_NAMES_A_TURN: Final = 1_000


class TokenTimes(NamedTuple):
    """lifetime_ms: a token's greatest age.  expiry_ms: how long it is valid without a renewal."""

    lifetime_ms: int
    expiry_ms: int


@dataclass(frozen=True, slots=True)
class TokenParts:
    """The parts that the four handlers share.  wall_clock: seconds since 1970."""

    coordinator: Coordinator
    secrets: TokenSecrets
    times: TokenTimes
    random_bytes: Callable[[int], bytes]
    wall_clock: Callable[[], float]
    finder: TokenFinder = field(init=False)

    def __post_init__(self) -> None:
        """Make the finder."""
        finder = TokenFinder(self.coordinator.state.tokens, self.secrets)
        object.__setattr__(self, "finder", finder)

    def refusal(self, peer: Peer) -> ErrorCode | None:
        """Return the error if a client may not use the APIs of tokens."""
        if not peer.may_have_tokens:
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return None if self.secrets.is_enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    def has_ended(self, token: DelegationToken) -> bool:
        """Return whether a token has expired, by the rules' time or by this gateway's clock."""
        return token.is_expired(judging_ms(self.coordinator.state, self.wall_clock()))

    async def find(self, secret: bytes) -> DelegationToken | None:
        """Return the token with a secret; another gateway may have just created it."""
        found = await self.finder.find(secret)
        if found is None:
            await self.coordinator.catch_up()
            found = await self.finder.find(secret)
        return None if found is None else self.coordinator.state.tokens.get(found)

    async def set_end(
        self,
        call: Call,
        secret: bytes,
        plan: Callable[[DelegationToken], RenewToken | ExpireToken | None],
        act: str,
    ) -> tuple[ErrorCode, int]:
        """Renew or expire the token with a secret; return the error code and the answer's time.

        plan: returns the proposal; None for an expired token.  act: the change's name in log lines.
        """
        refusal = self.refusal(call.peer)
        if refusal is not None:
            return refusal, no_time(refusal)
        token = await self.find(secret)
        proposal = None if token is None else plan(token)
        if token is not None and proposal is None:
            # Another gateway may have confirmed a renewal that this one has not read.
            await self.coordinator.catch_up()
            token = self.coordinator.state.tokens.get(token.token_id)
            proposal = None if token is None else plan(token)
        if token is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0
        if proposal is None:
            return ErrorCode.DELEGATION_TOKEN_EXPIRED, 0
        found = await self.coordinator.propose(proposal)
        if isinstance(found, TokenRefusal):
            return _CODES[found], 0
        tell_act(call, Act(act, [token.token_id], {"expires_ms": found}))
        return ErrorCode.NONE, found


@dataclass(frozen=True, slots=True)
class CreateDelegationToken:
    """Creates a token for the client, or for another owner."""

    parts: TokenParts
    api_key: ClassVar[int] = ApiKey.CREATE_DELEGATION_TOKEN
    messages: ClassVar[ModuleType] = create

    async def handle(
        self, call: Call, request: create.CreateDelegationTokenRequest
    ) -> create.CreateDelegationTokenResponse:
        """Answer with the token and its secret."""
        requester = call.peer.principal
        found = await self._create(call, request)
        if not isinstance(found, DelegationToken):
            return refused_creation(request, requester, found, call.version)
        fields: dict[str, object] = {"owner": found.owner, "renewers": list(found.renewers)}
        tell_act(call, Act("delegation token created", [found.token_id], fields))
        return create.CreateDelegationTokenResponse(
            ErrorCode.NONE,
            *type_and_name(found.owner),
            *requester_in(found.requester, call.version),
            found.issued_ms,
            found.expires_ms,
            found.max_ms,
            found.token_id,
            self.parts.secrets.of(found.token_id),
        )

    async def _create(
        self, call: Call, request: create.CreateDelegationTokenRequest
    ) -> DelegationToken | ErrorCode:
        if not call.peer.may_have_tokens:
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if len(request.renewers) > MAX_RENEWERS:
            return ErrorCode.POLICY_VIOLATION
        owner = owner_of(request, call.peer.principal)
        types = {type_and_name(owner)[0], *(each.principal_type for each in request.renewers)}
        if types != {USER}:
            return ErrorCode.INVALID_PRINCIPAL_TYPE
        refusal = self.parts.refusal(call.peer)
        if refusal is not None:
            return refusal
        lifetime_ms, expiry_ms = self.parts.times
        wanted_ms = request.max_lifetime_ms
        proposal = CreateToken(
            new_token_id(self.parts.random_bytes),
            owner,
            call.peer.principal,
            tuple(f"{USER}:{each.principal_name}" for each in request.renewers),
            min(wanted_ms, lifetime_ms) if wanted_ms > 0 else lifetime_ms,
            expiry_ms,
        )
        found = await self.parts.coordinator.propose(proposal)
        return _CODES[found] if isinstance(found, TokenRefusal) else found


@dataclass(frozen=True, slots=True)
class RenewDelegationToken:
    """Renews a token of the client, or a token that names the client as renewer."""

    parts: TokenParts
    api_key: ClassVar[int] = ApiKey.RENEW_DELEGATION_TOKEN
    messages: ClassVar[ModuleType] = renew

    async def handle(
        self, call: Call, request: renew.RenewDelegationTokenRequest
    ) -> renew.RenewDelegationTokenResponse:
        """Answer with the new expiry time."""
        expiry_ms = self.parts.times.expiry_ms
        wanted_ms = request.renew_period_ms
        period_ms = min(wanted_ms, expiry_ms) if wanted_ms > 0 else expiry_ms

        def plan(token: DelegationToken) -> RenewToken | None:
            if self.parts.has_ended(token):
                return None
            return RenewToken(token.token_id, call.peer.principal, period_ms)

        act = "delegation token renewed"
        code, expires_ms = await self.parts.set_end(call, request.hmac, plan, act)
        return renew.RenewDelegationTokenResponse(code, expires_ms)


@dataclass(frozen=True, slots=True)
class ExpireDelegationToken:
    """Sets the expiry time of a token, or removes the token."""

    parts: TokenParts
    api_key: ClassVar[int] = ApiKey.EXPIRE_DELEGATION_TOKEN
    messages: ClassVar[ModuleType] = expire

    async def handle(
        self, call: Call, request: expire.ExpireDelegationTokenRequest
    ) -> expire.ExpireDelegationTokenResponse:
        """Answer with the new expiry time."""
        principal, period_ms = call.peer.principal, request.expiry_time_period_ms

        def plan(token: DelegationToken) -> ExpireToken | None:
            if period_ms >= 0 and token.is_renewed_by(principal) and self.parts.has_ended(token):
                return None
            return ExpireToken(token.token_id, principal, period_ms)

        act = "delegation token removed" if period_ms < 0 else "delegation token ends"
        code, expires_ms = await self.parts.set_end(call, request.hmac, plan, act)
        return expire.ExpireDelegationTokenResponse(code, expires_ms)


@dataclass(frozen=True, slots=True)
class DescribeDelegationToken:
    """Shows tokens with their secrets, including expired tokens that are not removed yet."""

    parts: TokenParts
    api_key: ClassVar[int] = ApiKey.DESCRIBE_DELEGATION_TOKEN
    messages: ClassVar[ModuleType] = describe

    async def handle(
        self, call: Call, request: describe.DescribeDelegationTokenRequest
    ) -> describe.DescribeDelegationTokenResponse:
        """Answer with the tokens that the named principals own, requested or may renew.

        owners: null asks for all tokens, an empty list for none.  Tokens that the client may not
        see are left out.
        """
        refusal = self.parts.refusal(call.peer)
        if refusal is not None:
            return describe.DescribeDelegationTokenResponse(refusal)
        if request.owners is not None and not request.owners:
            return describe.DescribeDelegationTokenResponse()
        await self.parts.coordinator.catch_up()
        owners = await _names_of(request.owners or ())
        sees = partial(sees_token, call.peer.principal, call.peer.rights)
        shown: list[describe.DescribedDelegationToken] = []
        work = 0
        for token in list(self.parts.coordinator.state.tokens):
            if (not owners or not owners.isdisjoint(token.principals)) and sees(token):
                secret = self.parts.secrets.of(token.token_id)
                shown.append(_described(token, secret, call.version))
            work += 1 + len(token.renewers)
            if work >= SECRETS_A_TURN:
                await trio.lowlevel.checkpoint()
                work = 0
        return describe.DescribeDelegationTokenResponse(tokens=shown)


async def _names_of(owners: Iterable[describe.DescribeDelegationTokenOwner]) -> set[str]:
    found: set[str] = set()
    for at, each in enumerate(owners, start=1):
        found.add(f"{each.principal_type}:{each.principal_name}")
        if not at % _NAMES_A_TURN:
            await trio.lowlevel.checkpoint()
    return found


def _described(
    token: DelegationToken, secret: bytes, version: int
) -> describe.DescribedDelegationToken:
    renewers = [
        describe.DescribedDelegationTokenRenewer(*type_and_name(each)) for each in token.renewers
    ]
    return describe.DescribedDelegationToken(
        *type_and_name(token.owner),
        *requester_in(token.requester, version),
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.token_id,
        secret,
        renewers,
    )
