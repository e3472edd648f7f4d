"""Our client authenticates itself at a classic broker, and the broker to itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import pytest
import trio
from scramp import ScramException, ScramMechanism
from trio.testing import MockClock

from tests.worlds.scripted_broker import ADDRESS, PROPERTIES, Asked, HangUp, ScriptedBroker
from tests.worlds.unsigned_tokens import jwt_of
from tidegate_coordination.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClassicError,
    Refused,
    TokenUnavailable,
    Unsupported,
)
from tidegate_coordination.client.login.logins import Logins
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.properties.jaas import SaslCredentials
from tidegate_coordination.client.tokens.source import TokenSources
from tidegate_coordination.client.wire.connection import BrokerConnection, open_connection
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh
from tidegate_runtime.secret import Secret

SECRET = "hunter2"
WRONG = "Authentication failed during authentication due to invalid credentials."
PLAIN = SaslCredentials("PLAIN", "alice", Secret(SECRET))
SCRAM = SaslCredentials("SCRAM-SHA-512", "alice", Secret(SECRET))


class SaslListener:
    """The broker's side of SASL, with one user."""

    def __init__(self, *, password: str = SECRET, mechanisms: tuple[str, ...] = ("PLAIN",)) -> None:
        self.mechanisms = list(mechanisms)
        self.lifetime_ms = 0
        self.says = WRONG
        self._password = password
        self._scram: dict[int, Any] = {}

    def handshake(self, asked: Asked) -> sh.SaslHandshakeResponse:
        wanted = asked.request.mechanism
        if wanted not in self.mechanisms:
            return sh.SaslHandshakeResponse(33, self.mechanisms)
        if wanted != "PLAIN":
            known = ScramMechanism(wanted)
            info = known.make_auth_info(self._password)
            self._scram[asked.connection] = known.make_server(lambda _: info)
        return sh.SaslHandshakeResponse(0, self.mechanisms)

    def authenticate(self, asked: Asked) -> sa.SaslAuthenticateResponse:
        token, server = asked.request.auth_bytes, self._scram.get(asked.connection)
        try:
            answer = b"" if server is None else self._next(server, token.decode())
        except ScramException:
            return sa.SaslAuthenticateResponse(58, self.says)
        if server is None and token != f"\0alice\0{self._password}".encode():
            return sa.SaslAuthenticateResponse(58, self.says)
        return sa.SaslAuthenticateResponse(0, None, answer, self.lifetime_ms)

    def _next(self, server: Any, text: str) -> bytes:
        if server.stage is None:
            server.set_client_first(text)
            return str(server.get_server_first()).encode()
        server.set_client_final(text)
        return str(server.get_server_final()).encode()


class Listener(Protocol):
    """The answers of a broker to logins."""

    def handshake(self, asked: Asked, /) -> sh.SaslHandshakeResponse: ...
    def authenticate(self, asked: Asked, /) -> sa.SaslAuthenticateResponse: ...


def sasl_broker(nursery: trio.Nursery, listener: Listener, **more: Any) -> ScriptedBroker:
    answers = {
        "SaslHandshake": listener.handshake,
        "SaslAuthenticate": listener.authenticate,
        "Metadata": lambda _: me.MetadataResponse(cluster_id="c"),
        **more,
    }
    return ScriptedBroker(nursery, answers)


@asynccontextmanager
async def listening(
    credentials: SaslCredentials, listener: SaslListener
) -> AsyncIterator[tuple[ScriptedBroker, BrokerConnection]]:
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, listener)
        properties = replace(PROPERTIES, sasl=credentials)
        yield broker, await open_connection(nursery, broker.dial, ADDRESS, properties)
        nursery.cancel_scope.cancel()


async def refusal(
    credentials: SaslCredentials, listener: SaslListener, **more: Any
) -> ClassicError:
    """Return why no connection was opened."""
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, listener, **more)
        properties = replace(PROPERTIES, sasl=credentials)
        with pytest.raises(ClassicError) as caught:
            await open_connection(nursery, broker.dial, ADDRESS, properties)
    assert SECRET not in str(caught.value)
    return caught.value


# -- SASL -----------------------------------------------------------------------------------------


async def test_plain_authenticates(autojump_clock: MockClock) -> None:
    async with listening(PLAIN, SaslListener()) as (broker, connection):
        assert broker.names_asked() == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
        assert broker.asked[1].version == 1
        assert (await connection.call("Metadata", me.MetadataRequest())).cluster_id == "c"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_authenticates(mechanism: str, autojump_clock: MockClock) -> None:
    credentials = SaslCredentials(mechanism, "alice", Secret(SECRET))
    async with listening(credentials, SaslListener(mechanisms=(mechanism,))) as (broker, found):
        assert broker.names_asked()[1:] == ["SaslHandshake"] + ["SaslAuthenticate"] * 2
        assert found.is_open
        assert not any(SECRET.encode() in each.request.auth_bytes for each in broker.asked[2:])


@pytest.mark.parametrize("credentials", [PLAIN, SCRAM])
async def test_a_brokers_text_is_one_short_line(
    credentials: SaslCredentials, autojump_clock: MockClock
) -> None:
    listener = SaslListener(password="other", mechanisms=(credentials.mechanism,))
    listener.says = "no\nway" * 1000
    error = await refusal(credentials, listener)
    assert str(error).startswith("broker-1:9092 does not authenticate user alice: no wayno way")
    assert len(str(error)) < 300


@pytest.mark.parametrize("credentials", [PLAIN, SCRAM])
async def test_a_wrong_password_is_one_sentence_with_the_brokers_text(
    credentials: SaslCredentials, autojump_clock: MockClock
) -> None:
    listener = SaslListener(password="other", mechanisms=("PLAIN", "SCRAM-SHA-512"))
    error = await refusal(credentials, listener)
    assert isinstance(error, AuthenticationFailed)
    assert str(error) == f"broker-1:9092 does not authenticate user alice: {WRONG}"


async def test_a_false_broker_is_refused(autojump_clock: MockClock) -> None:
    """The false broker accepts each proof, but without the password it cannot sign."""
    listener = SaslListener(mechanisms=("SCRAM-SHA-512",))

    def authenticate(asked: Asked) -> sa.SaslAuthenticateResponse:
        if b"p=" in asked.request.auth_bytes:
            return sa.SaslAuthenticateResponse(0, None, b"v=" + b"A" * 86 + b"==")
        return listener.authenticate(asked)

    error = await refusal(SCRAM, listener, SaslAuthenticate=authenticate)
    assert isinstance(error, AuthenticationFailed)
    assert "do not trust it" in str(error)


async def test_a_mechanism_that_is_not_offered_names_those_that_are(
    autojump_clock: MockClock,
) -> None:
    error = await refusal(SCRAM, SaslListener(mechanisms=("PLAIN", "OAUTHBEARER")))
    assert isinstance(error, AuthenticationFailed)
    assert "set sasl.mechanism to one that it offers (PLAIN, OAUTHBEARER)." in str(error)


async def test_a_listener_without_sasl_is_named(autojump_clock: MockClock) -> None:
    def handshake(asked: Asked) -> sh.SaslHandshakeResponse:
        return sh.SaslHandshakeResponse(34)

    error = await refusal(PLAIN, SaslListener(), SaslHandshake=handshake)
    assert isinstance(error, AuthenticationFailed)
    assert "expects no SASL at this port" in str(error)


async def test_another_code_of_the_handshake_is_passed_on(autojump_clock: MockClock) -> None:
    def handshake(asked: Asked) -> sh.SaslHandshakeResponse:
        return sh.SaslHandshakeResponse(-1)

    error = await refusal(PLAIN, SaslListener(), SaslHandshake=handshake)
    assert isinstance(error, Refused)
    assert error.code == -1


@pytest.mark.parametrize("name", ["SaslHandshake", "SaslAuthenticate"])
async def test_a_broker_that_hangs_up_in_the_middle_is_unreachable(
    name: str, autojump_clock: MockClock
) -> None:
    def hang_up(asked: Asked) -> None:
        raise HangUp

    error = await refusal(PLAIN, SaslListener(), **{name: hang_up})
    assert isinstance(error, BrokerUnreachable)
    assert "closed the connection" in str(error)


async def test_a_broker_that_falls_silent_in_the_middle_is_unreachable(
    autojump_clock: MockClock,
) -> None:
    error = await refusal(PLAIN, SaslListener(), SaslAuthenticate=lambda _: None)
    assert isinstance(error, BrokerUnreachable)
    assert trio.current_time() == 10


async def test_a_broker_without_framed_tokens_is_not_supported(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        versions = {"ApiVersions": (0, 0), "SaslHandshake": (0, 0)}
        broker = ScriptedBroker(nursery, versions=versions)
        properties = replace(PROPERTIES, sasl=PLAIN)
        with pytest.raises(Unsupported, match="SaslHandshake 0 to 0, and 1 to 1 is needed"):
            await open_connection(nursery, broker.dial, ADDRESS, properties)


async def test_a_session_that_will_end_is_expiring_in_time(autojump_clock: MockClock) -> None:
    listener = SaslListener()
    listener.lifetime_ms = 100_000
    async with listening(PLAIN, listener) as (_, connection):
        await trio.sleep(84)
        assert not connection.is_expiring
        await trio.sleep(2)
        assert connection.is_expiring
        assert connection.is_open


# -- OAUTHBEARER ----------------------------------------------------------------------------------


class BearerListener:
    """The broker's side, with a list of accepted tokens.

    refuses_at_once: refuse a wrong token without a challenge.
    """

    def __init__(self, *taken: str) -> None:
        self.taken = list(taken)
        self.takes_all = False
        self.refuses_at_once = False
        self.lifetime_ms = 0
        self.sent: list[str] = []

    def handshake(self, _: Asked) -> sh.SaslHandshakeResponse:
        return sh.SaslHandshakeResponse(0, ["OAUTHBEARER"])

    def authenticate(self, asked: Asked) -> sa.SaslAuthenticateResponse:
        message = asked.request.auth_bytes
        if message != b"\x01":
            self.sent.append(message.decode().partition("Bearer ")[2].strip("\x01"))
            if self.takes_all or self.sent[-1] in self.taken:
                return sa.SaslAuthenticateResponse(0, None, b"", self.lifetime_ms)
            if not self.refuses_at_once:
                return sa.SaslAuthenticateResponse(0, None, b'{"status":"invalid_token"}')
        return sa.SaslAuthenticateResponse(58, '{"status":"invalid_token"}')


BEARER = BearerCredentials("https://idp.example/token", "app", Secret(SECRET))


class Provider:
    """Gives one token after another, each for 100 s."""

    def __init__(self) -> None:
        self.given: list[str] = []

    async def fetch(self, _: BearerCredentials) -> str:
        self.given.append(jwt_of({"exp": trio.current_time() + 100, "jti": len(self.given)}))
        return self.given[-1]

    def logins(self) -> Logins:
        properties = replace(PROPERTIES, sasl=BEARER)
        return Logins(properties, TokenSources(Random(1), self.fetch, trio.current_time))


async def test_a_bearer_token_authenticates(autojump_clock: MockClock) -> None:
    provider = Provider()
    logins = provider.logins()
    token = await logins.next()
    listener = BearerListener(*provider.given)
    listener.lifetime_ms = 10_000
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, listener)
        properties = replace(PROPERTIES, sasl=BEARER)
        opened = await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
        assert broker.names_asked() == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
        assert await logins.next() is token
        assert not opened.is_expiring
        await trio.sleep(9)
        assert opened.is_expiring
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("refuses_at_once", [True, False])
async def test_a_refused_token_is_one_sentence_and_not_sent_again(
    refuses_at_once: bool, autojump_clock: MockClock
) -> None:
    provider, listener = Provider(), BearerListener()
    listener.refuses_at_once = refuses_at_once
    logins = provider.logins()
    properties = replace(PROPERTIES, sasl=BEARER)
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, listener)
        for _ in range(2):
            with pytest.raises(AuthenticationFailed) as caught:
                await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
            assert str(caught.value) == (
                "broker-1:9092 does not authenticate client app: the token is refused"
                " (invalid_token)"
            )
        assert listener.sent == provider.given[:1]  # the second try sent no token
        assert logins.is_refused
        await trio.sleep(0.2)
        listener.takes_all = True
        await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
        assert listener.sent == provider.given
        assert len(provider.given) == 2
        assert not logins.is_refused
        # The next pause is the shortest one again.
        await trio.sleep(90)
        listener.takes_all = False
        with pytest.raises(AuthenticationFailed):
            await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
        await trio.sleep(0.11)
        await logins.next()
        assert len(provider.given) == 4
        nursery.cancel_scope.cancel()


async def test_a_refused_password_is_noted(autojump_clock: MockClock) -> None:
    properties = replace(PROPERTIES, sasl=PLAIN)
    logins, listener = Logins(properties), SaslListener(password="other")
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, listener)
        assert not logins.is_refused
        with pytest.raises(AuthenticationFailed):
            await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
        assert logins.is_refused


async def test_no_broker_is_dialled_without_a_token(autojump_clock: MockClock) -> None:
    async def fetch(_: BearerCredentials) -> str:
        raise TokenUnavailable("idp.example is away.")

    properties = replace(PROPERTIES, sasl=BEARER)
    logins = Logins(properties, TokenSources(Random(1), fetch))
    async with trio.open_nursery() as nursery:
        broker = sasl_broker(nursery, BearerListener())
        with pytest.raises(BrokerUnreachable, match=r"idp\.example is away"):
            await open_connection(nursery, broker.dial, ADDRESS, properties, logins=logins)
        assert broker.connections == 0
