"""A client that logs in by tokens of an identity provider (OAUTHBEARER, KIP-255, KIP-768).

A good token must log in at each gateway that has read its key.  A bad token must never log in.  Bad
tokens are expired or not valid yet; are of another issuer, or for another audience; have no
signature, or a wrong one; or are signed by a key that was never published, or is no longer.  A
session ends with its token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import trio

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Workload
from ..plans.security.bearer_plan import REFRESH_SECONDS, SKEW_SECONDS
from ..world.identity_provider import (
    IdentityProvider,
    SigningKey,
    claims_of,
    signed,
    signed_by_the_public_key,
    unsigned,
)
from .login import BEARER, Answer, Secret, is_refusal, is_served, log_in, open_connection

_SUBJECTS: Final = ("erin", "frank")
_BAD_SHARE: Final = 0.5
_STAYS_SHARE: Final = 0.4
# A gateway lets a client log in again once a second.
_AGAIN_SECONDS: Final = 1.5
# Clocks are wrong by two seconds at most; a request is on its way for a moment.
_SLACK_SECONDS: Final = 2.5
_OUTSIDE_SECONDS: Final = SKEW_SECONDS + 2 * _SLACK_SECONDS
# If no read fails, gateways have all keys that were published at least this long ago.
_READ_SECONDS: Final = REFRESH_SECONDS + 3.0
WRONG: Final = "a bad bearer token got in"
REFUSED: Final = "a good bearer token was refused"
OUTLIVED: Final = "a session outlived its bearer token"
CHANGED: Final = "a client became another user"


class _Bad(NamedTuple):
    """why: what is bad about a token.  make: makes it, from the newest key and the present time."""

    why: str
    make: Callable[[SigningKey, float], str]


class _Good(NamedTuple):
    text: str
    key: SigningKey
    subject: str
    expires_at: float  # seconds of the run


def _claimed(why: str, seconds: float = 30.0, **others: Any) -> _Bad:
    def make(key: SigningKey, now: float) -> str:
        return signed(key, claims_of("erin", now, seconds, **others))

    return _Bad(why, make)


def _without_signature(_key: SigningKey, now: float) -> str:
    return unsigned(claims_of("erin", now, 30.0))


def _by_the_public_key(key: SigningKey, now: float) -> str:
    return signed_by_the_public_key(key, claims_of("erin", now, 30.0))


class BearerClient:
    """A client with a token of an identity provider."""

    def __init__(self, workload: Workload, name: str, provider: IdentityProvider) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._provider = provider

    async def run(self) -> None:
        """Log in by one token after the other until no operation is left."""
        rng = self.client.rng
        while self._workload.take():
            node_id = rng.choice(sorted(self.client.world.nodes))
            try:
                if rng.random() < _BAD_SHARE:
                    await self._try_bad(node_id)
                else:
                    await self._visit(node_id)
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(2.0)

    # -- bad tokens -------------------------------------------------------------------------------

    async def _try_bad(self, node_id: int) -> None:
        bad = self.client.rng.choice(self._bad())
        token = bad.make(self._provider.published()[-1], self._now())
        connection = await open_connection(self.client.world, self.client.name, node_id)
        answer = await log_in(connection, Secret(BEARER, "", token), self.client.rng)
        connection.close()
        self._expect_refused(answer, f"{bad.why}, at gateway {node_id}")

    def _bad(self) -> list[_Bad]:
        def of_foreign_key(name: str) -> Callable[[SigningKey, float], str]:
            foreign = self._provider.never_published(name)
            return lambda key, now: signed(foreign, claims_of("erin", now, 30.0), name or key.name)

        now = self._now()
        return [
            _claimed("it has expired", -_OUTSIDE_SECONDS),
            _claimed("it has no end", exp=None),
            _claimed("it is not valid yet", nbf=now + _OUTSIDE_SECONDS),
            _claimed("it is of another issuer", iss="https://another.simulated"),
            _claimed("it is of no issuer", iss=None),
            _claimed("it is for others", aud=["others", "more"]),
            _claimed("it is for no audience", aud=None),
            _claimed("it is of no user", sub=None),
            _Bad("it has no signature", _without_signature),
            _Bad("the public key signed it", _by_the_public_key),
            _Bad("its key is unknown", of_foreign_key("never published")),
            _Bad("another key signed it", of_foreign_key("")),
        ]

    def _expect_refused(self, answer: Answer, text: str) -> None:
        if not answer.code:
            self._complain(WRONG, text)
        elif not is_refusal(answer, BEARER):
            self._complain("a failed login got another answer", f"{text}: {answer}")
        self._tell("refused")

    # -- good ones --------------------------------------------------------------------------------

    async def _visit(self, node_id: int) -> None:
        token = self._token(self.client.rng.choice(_SUBJECTS))
        connection = await open_connection(self.client.world, self.client.name, node_id)
        try:
            ends_at = await self._log_in(connection, node_id, token)
            if ends_at is not None and self.client.rng.random() < _STAYS_SHARE:
                await self._live(connection, node_id, token, ends_at)
        finally:
            connection.close()

    def _token(self, subject: str) -> _Good:
        rng, now = self.client.rng, self._now()
        # The key may be retired, because clients keep tokens for a while.
        key = rng.choice(self._provider.keys[-3:])
        seconds = rng.choice((4.0, 6.0, 30.0))
        text = signed(key, claims_of(subject, now, seconds))
        return _Good(text, key, subject, trio.current_time() + seconds)

    async def _log_in(
        self, connection: ClientConnection, node_id: int, token: _Good
    ) -> float | None:
        """Log in, for the first time or again; return when the session ends, None for a refusal.

        Raises:
          Disconnected: no answer came.
        """
        world, since = self.client.world, trio.current_time()
        before, told = world.nodes[node_id].gateway, self._provider.told.get(node_id)
        answer = await log_in(connection, Secret(BEARER, "", token.text), self.client.rng)
        is_same = before is not None and world.nodes[node_id].gateway is before
        knew = told if is_same and self._provider.told.get(node_id) == told else None
        text = f"{token.key.name}, at gateway {node_id}, which knew {knew}: {answer}"
        must_know = world.plan.logins.is_calm and since > _READ_SECONDS
        if answer.code:
            is_known = knew is not None and token.key.name in knew
            if must_know and token.key.retired_at > answer.at:
                is_known = is_known or token.key.published_at < since - _READ_SECONDS
            if is_known and token.expires_at > answer.at + _SLACK_SECONDS:
                self._complain(REFUSED, text)
            return None
        if knew is not None and token.key.name not in knew and token.key.retired_at < since:
            self._complain(WRONG, f"its key is retired: {text}")
        if must_know and token.key.retired_at < since - _READ_SECONDS:
            self._complain(WRONG, f"its key was retired long ago: {text}")
        self._judge_session(answer, token, since, text)
        self._tell("logins")
        return answer.at + answer.lifetime_ms / 1000

    def _judge_session(self, answer: Answer, token: _Good, since: float, text: str) -> None:
        left = token.expires_at - since + _SLACK_SECONDS
        if not 0 < answer.lifetime_ms <= self.client.world.plan.logins.session_ms:
            self._complain("another lifetime", text)
        elif answer.lifetime_ms > max(1.0, 1000 * left):
            self._complain(OUTLIVED, text)

    async def _live(
        self, connection: ClientConnection, node_id: int, token: _Good, ends_at: float
    ) -> None:
        """Use a session; at times log in again before its end, perhaps as another user."""
        rng = self.client.rng
        if rng.random() < _STAYS_SHARE:
            await trio.sleep(_AGAIN_SECONDS)
            if trio.current_time() > ends_at:
                return await self._ask_after_the_end(connection, node_id)
            another = self._token(rng.choice(_SUBJECTS))
            if another.subject != token.subject:
                return await self._change(connection, token, another)
            found = await self._log_in(connection, node_id, another)
            if found is None:
                return None
            ends_at = found
        await trio.sleep_until(ends_at)
        await trio.sleep(0.001 + rng.random())
        return await self._ask_after_the_end(connection, node_id)

    async def _change(self, connection: ClientConnection, token: _Good, another: _Good) -> None:
        """Try to log in again as another user."""
        answer = await log_in(connection, Secret(BEARER, "", another.text), self.client.rng)
        if not answer.code:
            self._complain(CHANGED, f"{token.subject} is {another.subject}")
        self._tell("refused")

    async def _ask_after_the_end(self, connection: ClientConnection, node_id: int) -> None:
        if await is_served(connection):
            self._complain(OUTLIVED, f"at gateway {node_id}")
        self._tell("ended")

    def _now(self) -> float:
        return self.client.world.wall_clock()

    def _complain(self, kind: str, text: str) -> None:
        self.client.world.complain(kind, text)

    def _tell(self, what: str) -> None:
        self.client.world.strikes.count(f"bearers.{what}")
