"""A client that logs in by delegation tokens of others: with SCRAM and `tokenauth=true` (KIP-48).

At all gateways it tries tokens that are good, that have expired or were removed, and wrong secrets.
A token that a gateway has acknowledged is good at all gateways once the log has answered them.  A
gateway without answers of the log is judged by the token that it knows itself.  A session ends with
its token.  Each owner has a topic that only this owner may see: the visible topics show whom the
gateway takes the client for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import trio

from tidegate_coordination.security.tokens import DelegationToken
from tidegate_gateway.builder import AWAY_SECONDS
from tidegate_gateway.gateway import Gateway
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_delegation_token as describe
from tidegate_protocol.messages import metadata

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Workload
from ..plans.security.token_plan import OWNERS, owned_topic
from . import scram
from .known_tokens import SLACK_MS, Ends, KnownToken, KnownTokens, wrongly_in, wrongly_out
from .login import Answer, Secret, ask, is_refusal, is_served, log_in, open_connection

_MOMENT_SECONDS: Final = AWAY_SECONDS + 1.0
_METADATA_VERSION: Final = 12
_DESCRIBE_VERSION: Final = 3
_WRONG_SHARE: Final = 0.2
_STAYS_SHARE: Final = 0.5
# A gateway lets a client log in again once a second.
_AGAIN_SECONDS: Final = 1.5
ENDED: Final = "an ended delegation token got in"
REFUSED: Final = "a good delegation token was refused"
WRONG: Final = "a wrong secret of a delegation token got in"
OUTLIVED: Final = "a session outlived its delegation token"
ANOTHER: Final = "a client by a delegation token is another user"
MAKES: Final = "a client by a delegation token may have tokens"
_UNSEEN: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class _Known:
    """The knowledge of a gateway about a token at a moment; see passwords.py."""

    gateway: Gateway
    token: DelegationToken | None
    is_stale: bool
    stale_seconds: float


class TokenClient:
    """A client with a delegation token of another one."""

    def __init__(self, workload: Workload, name: str, known: KnownTokens) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._known = known

    async def run(self) -> None:
        """Log in by one token after the other until no operation is left."""
        rng = self.client.rng
        while self._workload.take():
            if self._known.tokens:
                node_id = rng.choice(sorted(self.client.world.nodes))
                # Only the last ones: most older tokens have expired.
                token = rng.choice(self._known.tokens[-4:])
                try:
                    if rng.random() < _WRONG_SHARE:
                        await self._guess(node_id, token)
                    else:
                        await self._visit(node_id, token)
                except Disconnected:
                    await self.client.pause(1.0)
            await self.client.pause(3.0)

    async def _guess(self, node_id: int, token: KnownToken) -> None:
        """Try a wrong secret, or the right one without `tokenauth=true`."""
        rng = self.client.rng
        others = [each.password for each in self._known.tokens if each is not token]
        secret = rng.choice(
            (
                Secret(
                    scram.NAME, token.token_id, rng.choice(others or ["guessed"]), is_token=True
                ),
                Secret(scram.NAME, token.token_id, token.password),
            )
        )
        connection = await open_connection(self.client.world, self.client.name, node_id)
        answer = await log_in(connection, secret, rng)
        connection.close()
        if not answer.code:
            self._complain(WRONG, f"{secret} at {node_id}")
        else:
            self._expect_refusal(answer)

    async def _visit(self, node_id: int, token: KnownToken) -> None:
        connection = await open_connection(self.client.world, self.client.name, node_id)
        try:
            ends_at = await self._log_in(connection, node_id, token)
            if ends_at is not None:
                await self._live(connection, node_id, token, ends_at)
        finally:
            connection.close()

    async def _log_in(
        self,
        connection: ClientConnection,
        node_id: int,
        token: KnownToken,
        *,
        is_again: bool = False,
    ) -> float | None:
        """Log in, for the first time or again; return when the session ends, None for a refusal.

        Raises:
          Disconnected: no answer came.
        """
        since, sent_ms, before = trio.current_time(), self._now_ms(), self._seen(node_id, token)
        secret = Secret(scram.NAME, token.token_id, token.password, is_token=True)
        answer = await log_in(connection, secret, self.client.rng)
        after = self._seen(node_id, token)
        if answer.code:
            self._expect_refusal(answer, is_again=is_again)
        elif not answer.is_proved:
            self._complain("a gateway did not prove itself", f"{secret}")
        if before is not None and after is not None and before.gateway is after.gateway:
            text = f"{token.token_id} at gateway {node_id}"
            self._judge_by_own(answer, sent_ms, before.token, after.token, text)
            if not (before.is_stale or after.is_stale):
                since -= before.stale_seconds + _MOMENT_SECONDS
                self._judge(answer, sent_ms, token.since(since), text)
        if answer.code:
            return None
        self.client.world.strikes.count("tokens.logins")
        return answer.at + answer.lifetime_ms / 1000

    def _judge_by_own(
        self,
        answer: Answer,
        sent_ms: float,
        before: DelegationToken | None,
        after: DelegationToken | None,
        text: str,
    ) -> None:
        """Judge by the gateway's own token, if it has not changed during the login."""
        if before is not after:
            return
        if before is None:
            if not answer.code:
                self._complain(ENDED, f"{text}, which has no such token")
            return
        self._judge(answer, sent_ms, Ends(before.expires_ms, before.expires_ms), text)

    def _judge(self, answer: Answer, sent_ms: float, ends: Ends, text: str) -> None:
        now_ms, plan = self._now_ms(), self.client.world.plan.logins
        text = f"{text}: {answer}; it ends at {ends}"
        if answer.code:
            if wrongly_out(ends, now_ms):
                self._complain(REFUSED, text)
            return
        if wrongly_in(ends, sent_ms):
            self._complain(ENDED, text)
        elif not 0 < answer.lifetime_ms <= plan.session_ms:
            self._complain("another lifetime", text)
        # As in a login, the gateway's clock may be slow; the session must end with the token.
        elif answer.lifetime_ms > max(1, ends.latest_ms - sent_ms + SLACK_MS):
            self._complain(OUTLIVED, text)

    async def _live(
        self, connection: ClientConnection, node_id: int, token: KnownToken, ends_at: float
    ) -> None:
        """Use a session, at times until its end."""
        rng = self.client.rng
        await self._look(connection, node_id, token)
        if rng.random() > _STAYS_SHARE:
            return
        if rng.random() < _STAYS_SHARE:
            await trio.sleep(_AGAIN_SECONDS)
            found = await self._log_in(connection, node_id, token, is_again=True)
            if found is None:
                return
            ends_at = found
            await self._look(connection, node_id, token)
        await trio.sleep_until(ends_at)
        await trio.sleep(0.001 + rng.random())
        if await is_served(connection):
            self._complain(OUTLIVED, f"{token.token_id} at gateway {node_id}")
        self.client.world.strikes.count("tokens.ended")

    async def _look(self, connection: ClientConnection, node_id: int, token: KnownToken) -> None:
        """Check whom the gateway takes this client for, and that it refuses to describe tokens."""
        has_rights = self._has_rights(node_id)
        names = [metadata.MetadataRequestTopic(name=owned_topic(each)) for each in OWNERS]
        request = metadata.MetadataRequest(names, allow_auto_topic_creation=False)
        answer = await ask(connection, "Metadata", metadata, _METADATA_VERSION, request)
        if has_rights and self._has_rights(node_id):
            self._judge_rights(token, answer)
        question = describe.DescribeDelegationTokenRequest(None)
        told = await ask(
            connection, "DescribeDelegationToken", describe, _DESCRIBE_VERSION, question
        )
        if told.error_code != ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
            self._complain(MAKES, f"{told}")

    def _judge_rights(self, token: KnownToken, answer: Any) -> None:
        for each in answer.topics:
            is_own = each.name == owned_topic(token.user)
            if is_own == (each.error_code == _UNSEEN):
                self._complain(ANOTHER, f"not {token.owner}: {each.name}, {each.error_code}")

    def _has_rights(self, node_id: int) -> bool:
        """Return whether the gateway knows who may see the topics."""
        gateway = self.client.world.nodes[node_id].gateway
        if gateway is None:
            return False
        known = {each.name for each in gateway.coordinator.state.acls}
        return known >= {owned_topic(each) for each in OWNERS}

    def _seen(self, node_id: int, token: KnownToken) -> _Known | None:
        gateway = self.client.world.nodes[node_id].gateway
        if gateway is None:
            return None
        coordinator = gateway.coordinator
        row = coordinator.state.tokens.get(token.token_id)
        return _Known(gateway, row, coordinator.is_stale, coordinator.stale_seconds)

    def _expect_refusal(self, answer: Answer, *, is_again: bool = False) -> None:
        if not is_refusal(answer, scram.NAME, is_again=is_again):
            self._complain("a failed login got another answer", f"{answer}")

    def _now_ms(self) -> float:
        return self.client.world.wall_clock() * 1000

    def _complain(self, kind: str, text: str) -> None:
        self.client.world.complain(kind, text)
