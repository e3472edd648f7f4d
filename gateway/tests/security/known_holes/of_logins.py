"""Security holes of logins: false identities, and high costs before a client is known."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import trio

from tests.security.known_holes.hole import Hole
from tests.worlds.security.sasl_client import (
    LISTENER,
    authenticate,
    handshake,
    log_in,
    plain_token,
    sasl_settings,
)
from tests.worlds.security.scram_login import final_message, server_of
from tests.worlds.wire_client import Closed, wire_world
from tidegate_gateway.admin import admin_access
from tidegate_gateway.security.sasl import plain
from tidegate_gateway.security.sasl.exchange import Exchange
from tidegate_gateway.security.sasl.gates import Entrance, SaslGates
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials, Refused
from tidegate_gateway.security.sasl.plain import PlainConversation
from tidegate_gateway.security.sasl.scram import ScramConversation
from tidegate_protocol import primitives
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.messages import metadata as me
from tidegate_runtime import secret
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret

METADATA: Final = me.MetadataRequest([])


# -- another user than the one whose password it is ------------------------------------------------


async def is_nobody_else() -> None:
    """Alice proves her own password, and asks to be logged in as the administrator."""
    async with wire_world(sasl_settings(), listeners=(LISTENER,)) as world:
        client = world.connect()
        await handshake(client)
        answer = await authenticate(client, plain_token("alice", "secret", "admin"))
        assert answer.error_code == 58
        assert all(each.peer.principal == "User:ANONYMOUS" for each in world.gateway.connections)
    server, first_bare = server_of("alice", "secret"), "n=alice,r=abc"
    try:
        first = server.step(f"n,a=admin,{first_bare}".encode()).decode()
        server.step(final_message(first_bare, first, "secret"))
    except Refused:
        pass
    assert server.user is None


def is_who_it_asks_to_be_by_plain(patch: pytest.MonkeyPatch) -> None:
    real = PlainConversation.step

    def step(self: PlainConversation, token: bytes) -> bytes:
        wanted, user, password = token.split(b"\0")
        found = real(self, b"\0".join((b"", user, password)))
        self.user = wanted.decode() or self.user
        return found

    patch.setattr(PlainConversation, "step", step)


def is_who_it_asks_to_be_by_scram(patch: pytest.MonkeyPatch) -> None:
    real = ScramConversation._first

    def first(self: ScramConversation, text: str) -> bytes:
        found = real(self, re.sub("^n,a=[^,]*,", "n,,", text))
        self._name = text.split(",")[1].removeprefix("a=") or self._name
        return found

    patch.setattr(ScramConversation, "_first", first)


# -- a comparison that takes as long as its beginning is right -------------------------------------


async def secrets_are_compared_in_constant_time() -> None:
    """Each comparison of a secret goes through compare_digest."""
    compared: list[Any] = []
    real = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        compared.append(one)
        return real(one, other)

    request = HttpRequest("GET", "/v1/status", (("authorization", "Bearer guess"),), b"")
    server = server_of("alice", "secret")
    first = server.step(b"n,,n=alice,r=abc").decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hmac, "compare_digest", compare)
        patch.setattr(secret, "compare_digest", compare)
        assert not plain.is_password_in({"alice": Secret("secret")})("alice", "secreu")
        assert compared == [b"secreu"]
        with pytest.raises(InvalidCredentials):
            server.step(final_message("n=alice,r=abc", first, "secreu"))
        # one comparison of the nonce, and one of the proof
        assert len(compared) == 3
        assert admin_access.refusal_of(request, Secret("token"), has_certificate=False) is not None
        async with wire_world({"peer.token": "token"}) as world:
            service = world.gateway.peer_service
            answer = await service.handle(HttpRequest("GET", "/v1/objects/x", request.headers, b""))
        assert answer.status == 401
        assert len(compared) == 5


def compares_passwords_as_texts(patch: pytest.MonkeyPatch) -> None:
    def check(users: Mapping[str, Secret]) -> Callable[[str, str], bool]:
        return lambda user, password: user in users and users[user].reveal() == password

    patch.setattr(plain, "is_password_in", check)


def compares_proofs_as_texts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScramConversation, "_is_proof", lambda self, proof, signed: False)


# -- memory for a client that is not known ---------------------------------------------------------


async def strangers_get_no_memory() -> None:
    """Send a few bytes that declare a hundred megabytes."""
    for key in (ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        async with wire_world(sasl_settings(), listeners=(LISTENER,)) as world:
            client, begun = world.connect(), trio.current_time()
            await client.send((100 << 20).to_bytes(4, "big") + key.to_bytes(2, "big") + bytes(8))
            with pytest.raises(Closed):
                await client.receive()
            assert trio.current_time() == begun
            assert (
                world.gateway.writes.pool.large_bytes
                == world.gateway.writes.pool.control_bytes
                == 0
            )


def gives_strangers_the_limits_of_others(patch: pytest.MonkeyPatch) -> None:
    real = SaslGates.of

    def of(self: SaslGates, listener: str, on_known: Any = lambda: None) -> Entrance:
        return real(self, listener, on_known)._replace(limits=self._limits)

    patch.setattr(SaslGates, "of", of)


async def strangers_send_few_tagged_fields() -> None:
    """Send a first request whose header has ten thousand empty tagged fields."""
    async with wire_world(sasl_settings(), listeners=(LISTENER,)) as world:
        client = world.connect()
        tags = bytearray()
        primitives.write_tags(tags, [(number, bytearray()) for number in range(10_000)])
        head = bytes((0, ApiKey.API_VERSIONS, 0, 3, 0, 0, 0, 1, 0, 1)) + b"c"
        body = b"\x06tests\x021\0"
        await client.send(frame(head + tags + body))
        with pytest.raises(Closed):
            await client.receive()


def counts_no_tagged_fields(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(primitives, "MAX_TAGS", 1 << 31)


# -- SCRAM's nonce ---------------------------------------------------------------------------------


async def the_whole_nonce_comes_back() -> None:
    """Send a right proof with a nonce of which only the end is the server's."""
    server, first_bare = server_of("alice", "secret"), "n=alice,r=abc"
    first = server.step(f"n,,{first_bare}".encode()).decode()
    with pytest.raises(InvalidCredentials):
        server.step(final_message(first_bare, first, "secret", "otherSERVER"))
    assert server.user is None


def compares_the_end_of_the_nonce(patch: pytest.MonkeyPatch) -> None:
    real = ScramConversation._final

    def final(self: ScramConversation, text: str) -> bytes:
        nonce = text.split(",")[1].removeprefix("r=")
        if nonce.endswith(self._own_nonce):
            self._nonce = nonce
        return real(self, text)

    patch.setattr(ScramConversation, "_final", final)


# -- logging in again ------------------------------------------------------------------------------


async def clients_log_in_again() -> None:
    """A client can log in again on its connection, before its session expires."""
    settings = sasl_settings(more={"connections.max.reauth.ms": "5000"})
    async with wire_world(settings, listeners=(LISTENER,)) as world:
        client = world.connect()
        await log_in(client)
        for _ in range(3):
            await trio.sleep(4)
            assert await log_in(client) == 5000
            assert (await client.call("Metadata", 12, METADATA)).brokers


def refuses_all_that_log_in_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Exchange, "begin_again", lambda self, now: False)


HOLES: Final = (
    Hole(
        "CVE-2017-12610",
        is_nobody_else,
        (is_who_it_asks_to_be_by_plain, is_who_it_asks_to_be_by_scram),
    ),
    Hole(
        "CVE-2021-38153",
        secrets_are_compared_in_constant_time,
        (compares_passwords_as_texts, compares_proofs_as_texts),
    ),
    Hole("CVE-2022-34917", strangers_get_no_memory, (gives_strangers_the_limits_of_others,)),
    Hole("CVE-2024-56128", the_whole_nonce_comes_back, (compares_the_end_of_the_nonce,)),
    Hole("CVE-2026-111115", strangers_send_few_tagged_fields, (counts_no_tagged_fields,)),
    Hole("Nisshi #665", clients_log_in_again, (refuses_all_that_log_in_again,)),
)
