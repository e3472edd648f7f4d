"""A keeper creates, renews, expires, removes and describes delegation tokens (KIP-48, KIP-373).

It logs in as one of two owners, at any gateway, and does one thing after the other.  So it knows
when each token ends, and which users may see and change it.  It is the only client that changes
tokens; the housekeeper removes expired ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_acls
from tidegate_protocol.messages import create_delegation_token as create
from tidegate_protocol.messages import describe_delegation_token as describe
from tidegate_protocol.messages import expire_delegation_token as expire
from tidegate_protocol.messages import renew_delegation_token as renew

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Workload
from ..plans.security.login_plan import password_of
from ..plans.security.token_plan import MOST_OF_REQUESTER, OWNERS, ROOT, owned_topic
from .known_tokens import (
    NEVER_MS,
    SLACK_MS,
    Ends,
    KnownToken,
    KnownTokens,
    wrongly_in,
    wrongly_out,
)
from .login import PLAIN, Secret, ask, log_in, open_connection

_CREATE_VERSION: Final = 3
_CHANGE_VERSION: Final = 2
_ACL_VERSION: Final = 3
_TOPIC, _TOKEN, _USER = 2, 6, 7
_DESCRIBE, _CREATE_TOKENS = 8, 13
_ALLOW: Final = 3
_ALICE, _BOB = (f"User:{each}" for each in OWNERS)
_MAY_ACT_FOR: Final = {_ALICE: {_ALICE}, _BOB: {_ALICE, _BOB}}
_ACLS: Final = (
    *((_TOPIC, owned_topic(each), f"User:{each}", _DESCRIBE) for each in OWNERS),
    # Once a resource has an ACL, other users may do nothing with it.
    (_TOKEN, "*", ROOT, _DESCRIBE),
    (_USER, _ALICE, _BOB, _CREATE_TOKENS),
    (_USER, _BOB, ROOT, _CREATE_TOKENS),
)
LONG: Final = "a delegation token lasts too long"
ENDED: Final = "an ended delegation token was changed"
REFUSED: Final = "a good delegation token was not changed"
FOREIGN: Final = "another's delegation token was changed"
CREATED: Final = "a delegation token was created without a right"
MANY: Final = "too many delegation tokens"
SHOWN: Final = "a delegation token was shown"
HIDDEN: Final = "a delegation token was not shown"
ANOTHER: Final = "another delegation token"


class TokenKeeper:
    """The keeper of a run's delegation tokens."""

    def __init__(self, workload: Workload, name: str, known: KnownTokens) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._known = known
        self._me = ""

    async def run(self) -> None:
        """Set the ACLs; then change tokens until no operation is left."""
        for each in _ACLS:
            await self._allow(each)
        self.client.close()
        world, rng = self.client.world, self.client.rng
        while self._workload.take():
            user = rng.choice(OWNERS)
            self._me = f"User:{user}"
            node_id = rng.choice(sorted(world.nodes))
            try:
                connection = await open_connection(world, self.client.name, node_id)
                answer = await log_in(connection, Secret(PLAIN, user, password_of(user)), rng)
                if not answer.code:
                    await self._work(connection)
                connection.close()
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(3.0)

    async def _allow(self, acl: tuple[int, str, str, int]) -> None:
        kind, name, principal, operation = acl
        row = create_acls.AclCreation(kind, name, 3, principal, "*", operation, _ALLOW)
        request = create_acls.CreateAclsRequest([row])
        while True:
            try:
                answer = await self.client.call("CreateAcls", create_acls, _ACL_VERSION, request)
                break
            except Disconnected:
                await self.client.pause(1.0)
        if answer.results[0].error_code:
            self._complain("false error", f"CreateAcls: {answer}")

    async def _work(self, connection: ClientConnection) -> None:
        for _ in range(self.client.rng.randint(1, 3)):
            rng, tokens = self.client.rng, self._known.tokens
            # Only the last ones: most older tokens have expired.
            token = rng.choice(tokens[-4:]) if tokens else None
            act = rng.choice((self._renew, self._renew, self._expire, self._remove, None))
            if token is None or act is None or rng.random() < 0.5:
                await rng.choice((self._create, self._create, self._describe))(connection)
            else:
                await act(connection, token)
            if not self._workload.take():
                return

    # -- creating ---------------------------------------------------------------------------------

    async def _create(self, connection: ClientConnection) -> None:
        rng, plan = self.client.rng, self.client.world.plan.logins.tokens
        owner = rng.choice((self._me, self._me, *(f"User:{each}" for each in OWNERS)))
        renewers = rng.choice(((), (_ALICE,), (_BOB,)))
        lifetime_ms = rng.choice((-1, 8_000, 10 * plan.lifetime_ms))
        kind, name = owner.split(":") if owner != self._me else ("", "")
        rows = [create.CreatableRenewers(*each.split(":")) for each in renewers]
        request = create.CreateDelegationTokenRequest(kind, name, rows, lifetime_ms)
        had, may_be_more = self._count(), self._known.has_unknown
        self._known.has_unknown = True
        answer = await ask(connection, "CreateDelegationToken", create, _CREATE_VERSION, request)
        self._known.has_unknown = may_be_more
        may_create = owner in _MAY_ACT_FOR[self._me]
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                if not may_create:
                    self._complain(CREATED, f"of {owner} by {self._me}")
                if self._count() > MOST_OF_REQUESTER:
                    self._complain(MANY, f"{self._count()} of {self._me}")
                self._created(owner, renewers, lifetime_ms, answer)
            case ErrorCode.POLICY_VIOLATION:
                if max(had, self._count()) < MOST_OF_REQUESTER and not may_be_more:
                    self._complain("false error", f"{self._me} has created {had} tokens")
                self._tell("refused")
            case ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED if not may_create:
                self._tell("refused")
            case code:
                self._complain("false error", f"CreateDelegationToken: {code.name}")

    def _count(self) -> int:
        """Return the number of tokens in the log that this principal has created."""
        tokens = self.client.world.watch.state.tokens
        return sum(each.requester == self._me for each in tokens)

    def _created(self, owner: str, renewers: Sequence[str], lifetime_ms: int, answer: Any) -> None:
        plan = self.client.world.plan.logins.tokens
        wanted_ms = min(lifetime_ms, plan.lifetime_ms) if lifetime_ms > 0 else plan.lifetime_ms
        max_ms = answer.issue_timestamp_ms + wanted_ms
        expires_ms = min(max_ms, answer.issue_timestamp_ms + plan.expiry_ms)
        said = answer.max_timestamp_ms, answer.expiry_timestamp_ms
        if said != (max_ms, expires_ms) or answer.issue_timestamp_ms > self._now_ms() + SLACK_MS:
            self._complain(LONG, f"{answer}")
        names = f"{answer.principal_type}:{answer.principal_name}"
        if names != owner:
            self._complain(ANOTHER, f"of {names} and not of {owner}")
        token = KnownToken(
            answer.token_id,
            bytes(answer.hmac),
            owner,
            frozenset({owner, self._me, *renewers}),
            frozenset({owner, *renewers}),
            max_ms,
        )
        token.note(trio.current_time(), Ends(expires_ms, expires_ms))
        self._known.tokens.append(token)
        self._tell("created")

    # -- changing ---------------------------------------------------------------------------------

    async def _renew(self, connection: ClientConnection, token: KnownToken) -> None:
        expiry_ms = self.client.world.plan.logins.tokens.expiry_ms
        wanted_ms = self.client.rng.choice((-1, expiry_ms // 2, 2 * expiry_ms))
        period_ms = min(wanted_ms, expiry_ms) if wanted_ms > 0 else expiry_ms
        request = renew.RenewDelegationTokenRequest(token.secret, wanted_ms)
        await self._change(connection, token, "RenewDelegationToken", renew, request, period_ms)

    async def _expire(self, connection: ClientConnection, token: KnownToken) -> None:
        period_ms = self.client.rng.choice((0, 2_000, 10_000))
        request = expire.ExpireDelegationTokenRequest(token.secret, period_ms)
        await self._change(connection, token, "ExpireDelegationToken", expire, request, period_ms)

    async def _remove(self, connection: ClientConnection, token: KnownToken) -> None:
        request = expire.ExpireDelegationTokenRequest(token.secret, -1)
        await self._change(connection, token, "ExpireDelegationToken", expire, request, -1)

    async def _change(
        self,
        connection: ClientConnection,
        token: KnownToken,
        name: str,
        messages: ModuleType,
        request: Any,
        period_ms: int,
    ) -> None:
        """Set a token's end to a period from now on, or remove it; period_ms: -1."""
        before, sent_ms = token.now(), self._now_ms()
        token.note(trio.current_time(), token.at_any_time)
        try:
            answer = await ask(connection, name, messages, _CHANGE_VERSION, request)
        except Disconnected:
            token.lose_sight(trio.current_time())
            raise
        text = f"{name} of {period_ms} ms by {self._me}: {answer}; it ends at {before}"
        after = before
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            after = self._judge_change(token, period_ms, answer.expiry_timestamp_ms, text)
            # An expired token may only be removed.
            if period_ms >= 0 and wrongly_in(before, sent_ms):
                self._complain(ENDED, text)
        elif not self._may_refuse(token, code, before, period_ms):
            self._complain(REFUSED, text)
        token.note(trio.current_time(), after)
        self._tell("changed" if code is ErrorCode.NONE else "refused")

    def _judge_change(self, token: KnownToken, period_ms: int, end_ms: int, text: str) -> Ends:
        if self._me not in token.changers:
            self._complain(FOREIGN, text)
        if period_ms < 0:
            return Ends(NEVER_MS, NEVER_MS)
        if end_ms > min(token.max_ms, self._now_ms() + SLACK_MS + period_ms):
            self._complain(LONG, text)
        return Ends(end_ms, end_ms)

    def _may_refuse(self, token: KnownToken, code: ErrorCode, before: Ends, period_ms: int) -> bool:
        has_ended = not wrongly_out(before, self._now_ms())
        match code:
            case ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH:
                return self._me not in token.changers
            case ErrorCode.DELEGATION_TOKEN_EXPIRED:
                return has_ended and period_ms >= 0
            case ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
                return has_ended
            case _:
                return False

    # -- describing -------------------------------------------------------------------------------

    async def _describe(self, connection: ClientConnection) -> None:
        """Ask for all tokens: each live token that this principal may see must be shown."""
        before = {each.token_id: each.now() for each in self._known.tokens}
        request = describe.DescribeDelegationTokenRequest(None)
        answer = await ask(
            connection, "DescribeDelegationToken", describe, _CREATE_VERSION, request
        )
        if answer.error_code:
            self._complain("false error", f"DescribeDelegationToken: {answer}")
        shown = {each.token_id: each for each in answer.tokens}
        for token_id, each in shown.items():
            self._judge_shown(token_id, each, before.get(token_id))
        for token_id, ends in before.items():
            token = self._known.by_id(token_id)
            assert token is not None
            sees = self._me in token.principals
            if sees and token_id not in shown and wrongly_out(ends, self._now_ms()):
                self._complain(HIDDEN, f"{token_id} of {token.owner} to {self._me}; {ends}")
        self._tell("described")

    def _judge_shown(self, token_id: str, shown: Any, ends: Ends | None) -> None:
        token = self._known.by_id(token_id)
        if token is None or ends is None:
            if not self._known.has_unknown:
                self._complain(SHOWN, f"{shown}, which no client has created")
            return
        if self._me not in token.principals:
            self._complain(SHOWN, f"{shown} to {self._me}")
        if ends.latest_ms == NEVER_MS:
            self._complain(SHOWN, f"{shown}, which was removed")
        owner = f"{shown.principal_type}:{shown.principal_name}"
        if (owner, bytes(shown.hmac)) != (token.owner, token.secret):
            self._complain(ANOTHER, f"{shown} is not {token}")
        if not ends.earliest_ms <= shown.expiry_timestamp <= ends.latest_ms:
            self._complain(ANOTHER, f"{shown} does not end at {ends}")

    def _now_ms(self) -> float:
        return self.client.world.wall_clock() * 1000

    def _complain(self, kind: str, text: str) -> None:
        self.client.world.complain(kind, text)

    def _tell(self, what: str) -> None:
        self.client.world.strikes.count(f"tokens.{what}")
