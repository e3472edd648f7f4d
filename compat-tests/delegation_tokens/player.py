"""Asks one broker about tokens, and keeps the facts of its answers.

The facts leave out ids, secrets and clocks, which are new in each run.  Times are relative: in ms
from the issue of a token, or in minutes from now.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import trio
from authentications.scram import ITERATIONS, NONCE, SALT, Scram
from transactions.differential.wire import ConnectionLost, Request

from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_delegation_token as cdt
from tidegate_protocol.messages import describe_delegation_token as ddt
from tidegate_protocol.messages import expire_delegation_token as edt
from tidegate_protocol.messages import renew_delegation_token as rdt
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh

from .broker import LOGIN, OPEN, USERS, creation, rights

SETTLE_SECONDS: Final = 0.4
"""A broker of Kafka hears of tokens from its controller a moment after they are acknowledged."""
_MINUTE_MS: Final = 60_000
_SCRAM: Final = "SCRAM-SHA-256"

Facts = list[Any]
Principals = Sequence[tuple[str | None, str | None]]


class Line(Protocol):
    """A connection to a broker."""

    async def call(self, request: Request) -> Any:
        """Send a request and return its response.

        Raises:
          ConnectionLost: the broker closed the connection.
        """
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(slots=True)
class Token:
    """A token, as the script has seen it last."""

    label: str
    token_id: str = "none"
    hmac: bytes = b"none"
    issued_ms: int = 0
    expires_ms: int = 0
    max_ms: int = 0

    @property
    def password(self) -> str:
        """The password of a login with this token."""
        return base64.b64encode(self.hmac).decode()


class Player:
    """facts: by the name of the question.

    Args:
      open_line: opens a connection to a listener.  now_ms: the broker's wall clock.
    """

    def __init__(
        self, open_line: Callable[[str], Awaitable[Line]], now_ms: Callable[[], int]
    ) -> None:
        self.facts: dict[str, Facts] = {}
        self._open_line = open_line
        self._now_ms = now_ms
        self._tokens: dict[str, Token] = {}
        self._lines: dict[str, Line] = {}

    def _note(self, name: str, facts: Facts) -> None:
        assert name not in self.facts, name
        self.facts[name] = facts

    async def prepare(self) -> None:
        """Add users and rights."""
        line = await self._line("")
        creations = [creation(each) for each in rights()]
        answer = await line.call(Request("CreateAcls", 3, ca.CreateAclsRequest(creations)))
        assert not any(each.error_code for each in answer.results), answer
        body = asc.AlterUserScramCredentialsRequest(upsertions=upsertions(USERS))
        answer = await line.call(Request("AlterUserScramCredentials", 0, body))
        assert not any(each.error_code for each in answer.results), answer
        await trio.sleep(2 * SETTLE_SECONDS)

    async def _line(self, user: str) -> Line:
        """Return the connection of a user.  user: "" for a client that does not log in."""
        if user not in self._lines:
            line = self._lines[user] = await self._open_line(LOGIN if user else OPEN)
            if user:
                await line.call(Request("SaslHandshake", 1, sh.SaslHandshakeRequest("PLAIN")))
                body = sa.SaslAuthenticateRequest(f"\0{user}\0{user}".encode())
                answer = await line.call(Request("SaslAuthenticate", 2, body))
                assert answer.error_code == 0, answer
        return self._lines[user]

    # -- the four APIs ----------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        user: str,
        *,
        lifetime_ms: int = -1,
        owner: tuple[str | None, str | None] = ("", ""),
        renewers: Principals = (),
        version: int = 3,
        line: Line | None = None,
    ) -> Token:
        """Create a token; if it is refused, return one that no broker knows."""
        whose = [cdt.CreatableRenewers(kind or "", each or "") for kind, each in renewers]
        body = cdt.CreateDelegationTokenRequest(*owner, whose, lifetime_ms)
        line = line or await self._line(user)
        answer = await self._ask(line, Request("CreateDelegationToken", version, body))
        token = Token(name)
        if answer is None:
            self._note(name, ["closed"])
            return token
        names = [answer.principal_type, answer.principal_name]
        if version >= 3:
            names += [answer.token_requester_principal_type, answer.token_requester_principal_name]
        times = [answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms]
        sizes = [len(answer.token_id), len(answer.hmac)]
        if not answer.error_code:
            token = Token(name, answer.token_id, answer.hmac, *times)
            self._tokens[token.token_id] = token
            issued_ms = times[0]
            assert abs(self._now_ms() - issued_ms) < _MINUTE_MS
            times = [each - issued_ms for each in times]
            await trio.sleep(SETTLE_SECONDS)
        self._note(name, [answer.error_code, *names, *times, *sizes])
        return token

    async def renew(
        self, name: str, user: str, token: Token, period_ms: int, version: int = 2
    ) -> None:
        """Renew a token."""
        body = rdt.RenewDelegationTokenRequest(token.hmac, period_ms)
        request = Request("RenewDelegationToken", version, body)
        await self._move(name, await self._line(user), request, token)

    async def expire(
        self, name: str, user: str, token: Token, period_ms: int, version: int = 2
    ) -> None:
        """Let a token expire."""
        body = edt.ExpireDelegationTokenRequest(token.hmac, period_ms)
        request = Request("ExpireDelegationToken", version, body)
        await self._move(name, await self._line(user), request, token)

    async def _move(self, name: str, line: Line, request: Request, token: Token) -> None:
        answer = await self._ask(line, request)
        if answer is None:
            self._note(name, ["closed"])
            return
        time: int | str = answer.expiry_timestamp_ms
        if not answer.error_code:
            token.expires_ms = answer.expiry_timestamp_ms
            is_max = token.expires_ms == token.max_ms
            time = "max" if is_max else round((token.expires_ms - self._now_ms()) / _MINUTE_MS)
            await trio.sleep(SETTLE_SECONDS)
        self._note(name, [answer.error_code, time])

    async def describe(
        self, name: str, user: str, owners: Principals | None, version: int = 3
    ) -> None:
        """Describe tokens."""
        asked = None
        if owners is not None:
            asked = [
                ddt.DescribeDelegationTokenOwner(kind or "", each or "") for kind, each in owners
            ]
        body = ddt.DescribeDelegationTokenRequest(asked)
        request = Request("DescribeDelegationToken", version, body)
        answer = await self._ask(await self._line(user), request)
        if answer is None:
            self._note(name, ["closed"])
            return
        shown = sorted(self._shown(each, version) for each in answer.tokens)
        self._note(name, [answer.error_code, *shown])

    def _shown(self, found: ddt.DescribedDelegationToken, version: int) -> Facts:
        known = self._tokens.get(found.token_id, Token("unknown"))
        names = [f"{found.principal_type}:{found.principal_name}"]
        if version >= 3:
            names.append(
                f"{found.token_requester_principal_type}:{found.token_requester_principal_name}"
            )
        times = found.issue_timestamp, found.expiry_timestamp, found.max_timestamp
        is_same = times == (known.issued_ms, known.expires_ms, known.max_ms)
        renewers = [f"{each.principal_type}:{each.principal_name}" for each in found.renewers]
        return [known.label, *names, renewers, is_same and found.hmac == known.hmac]

    async def refused_everywhere(self, name: str, line: Line | None = None) -> None:
        """Ask all four APIs on a connection that may use none, by default one without a login."""
        line = line or await self._line("")
        token = Token("")
        await self.create(f"{name}: create", "", line=line)
        renew = Request("RenewDelegationToken", 2, rdt.RenewDelegationTokenRequest(b"x", 1))
        await self._move(f"{name}: renew", line, renew, token)
        expire = Request("ExpireDelegationToken", 2, edt.ExpireDelegationTokenRequest(b"x", 1))
        await self._move(f"{name}: expire", line, expire, token)
        body = ddt.DescribeDelegationTokenRequest(None)
        answer = await self._ask(line, Request("DescribeDelegationToken", 3, body))
        self._note(f"{name}: describe", [answer.error_code, len(answer.tokens)])

    # -- logins -----------------------------------------------------------------------------------

    async def login(
        self,
        name: str,
        user: str,
        password: str,
        *,
        mechanism: str = _SCRAM,
        extension: str = ",tokenauth=true",
        authorization_id: str = "",
        line: Line | None = None,
    ) -> Line:
        """Log in by SCRAM, on a new connection unless one is given."""
        line = line or await self._open_line(LOGIN)
        asked = f"a={authorization_id}" if authorization_id else ""
        scram = Scram(mechanism, f"n,{asked},n={user},r={NONCE}{extension}", password)
        facts: Facts = []
        body = sh.SaslHandshakeRequest(mechanism)
        shaken = await self._ask(line, Request("SaslHandshake", 1, body))
        token = scram.first.encode()
        for _ in range(2 if shaken is not None and not shaken.error_code else 0):
            request = Request("SaslAuthenticate", 2, sa.SaslAuthenticateRequest(token))
            answer = await self._ask(line, request)
            if answer is None:
                facts.append("closed")
                break
            lifetime = round(answer.session_lifetime_ms / _MINUTE_MS)
            facts.append([answer.error_code, answer.error_message, lifetime])
            if answer.error_code:
                break
            if token == scram.first.encode():
                token = scram.final(answer.auth_bytes)
        self._note(name, facts or ["not shaken"])
        return line

    async def _ask(self, line: Line, request: Request) -> Any:
        try:
            return await line.call(request)
        except ConnectionLost:
            return None


def upsertions(users: Sequence[str]) -> list[asc.ScramCredentialUpsertion]:
    """Return credentials for SCRAM-SHA-256 of users whose passwords are their names."""
    return [
        asc.ScramCredentialUpsertion(each, 1, ITERATIONS, SALT, _salted(each)) for each in users
    ]


def _salted(password: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)
