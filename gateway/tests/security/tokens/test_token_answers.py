"""Every question about delegation tokens: a gateway answers as Apache Kafka, or as listed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from delegation_tokens.broker import LOGIN, OPEN, settings
from delegation_tokens.player import Facts, Line, Player
from delegation_tokens.script import play, play_without_key
from msgspec.structs import replace
from trio.testing import MockClock

from tests.worlds.clients.on_wire import OnWire
from tests.worlds.wire_client import NOW_MS, wire_world
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_gateway.network.call import Login, Peer
from tidegate_gateway.requests.tokens import delegation_tokens, feature
from tidegate_gateway.security.guard import open_to_all
from tidegate_gateway.security.sasl import scram
from tidegate_gateway.security.tokens.logins import TokenLogins

GOLDEN = Path(__file__).parents[4] / "compat-tests" / "expected" / "delegation_tokens.json"
NOT_BETRAYED = "a token that is not there fails at the second message, as an unknown user does"
NO_USER = "who logs in by a token is a user, so no other principal can own one"
DIFFERS = {
    **{
        f"login: {what}": NOT_BETRAYED
        for what in (
            "unknown id",
            "without tokenauth",
            "tokenauth=false",
            "tokenauth=1",
            "tokenauth=yes",
            "TokenAuth",
            "a user's name with tokenauth",
        )
    },
    "over: removed": NOT_BETRAYED,
    "no key: log in": NOT_BETRAYED,
    "over: too late": "Kafka lets it in, to a session that is over at once",
    "create: for a group": NO_USER,
    "create: for no type": NO_USER,
    "create: for a null type": "Kafka fails with UNKNOWN_SERVER_ERROR, and forgets who asks",
    "describe: of a group": NO_USER,
    "describe: of no type": NO_USER,
    "describe: all, by admin": NO_USER,
    "describe: all, by dave": NO_USER,
}
"""Questions that are answered otherwise, and why."""


async def played(script: Callable[[Player], Awaitable[None]], *, has_key: bool) -> dict[str, Facts]:
    given = settings(has_key=has_key)
    given["listener.security.protocol.map"] = f"{OPEN}:PLAINTEXT,{LOGIN}:SASL_PLAINTEXT"
    begun = trio.current_time()
    async with wire_world(given, listeners=(LOGIN, OPEN)) as world:

        async def open_line(listener: str) -> Line:
            return OnWire(world.connect("127.0.0.1", listener))

        player = Player(open_line, lambda: NOW_MS + int((trio.current_time() - begun) * 1000))
        await script(player)
    return player.facts


async def test_the_gateway_answers_as_kafka_did(autojump_clock: MockClock) -> None:
    recorded: dict[str, Any] = json.loads(GOLDEN.read_text())
    found = await played(play, has_key=True) | await played(play_without_key, has_key=False)
    assert len(found) > 150
    assert recorded.keys() - {"kafka"} == found.keys()
    differing = {name for name in found if found[name] != recorded[name]}
    shown = {name: (found[name], recorded[name]) for name in differing - DIFFERS.keys()}
    assert shown == {}
    assert differing == DIFFERS.keys()


async def test_admins_differ_only_in_tokens_of_no_user(autojump_clock: MockClock) -> None:
    recorded: dict[str, Any] = json.loads(GOLDEN.read_text())
    found = await played(play, has_key=True)
    for name in ("describe: all, by admin", "describe: all, by dave"):
        code, *rows = recorded[name]
        assert found[name] == [code, *(each for each in rows if each[1].startswith("User:"))]


def lets_expired_tokens_in(patch: pytest.MonkeyPatch) -> None:
    real = TokenLogins._login

    def login(self: Any, mechanism: str, token: DelegationToken) -> Any:
        return real(self, mechanism, replace(token, expires_ms=token.expires_ms + 60_000))

    patch.setattr(TokenLogins, "_login", login)


def lets_tokens_make_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "may_have_tokens", property(lambda peer: peer.login is not Login.NONE))


def asks_for_no_right_to_create(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(feature, "guard_create_delegation_token", open_to_all)


def shows_all_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delegation_tokens, "sees_token", lambda *_: True)


def takes_the_requester_for_the_owner(patch: pytest.MonkeyPatch) -> None:
    def may_renew(self: DelegationToken, principal: str) -> bool:
        return principal in self.principals

    patch.setattr(DelegationToken, "is_renewed_by", may_renew)


def takes_any_extension_for_a_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scram, "_says_token", bool)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lets_expired_tokens_in, "over: too late"),
        (lets_tokens_make_tokens, "login: by a token: create"),
        (asks_for_no_right_to_create, "create: for alice by ivan"),
        (shows_all_tokens, "describe: all, by ivan"),
        (takes_the_requester_for_the_owner, "renew: by the requester"),
        (takes_any_extension_for_a_token, "login: tokenauth=false"),
    ],
)
async def test_planted_bugs_change_answers(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    expected: str,
) -> None:
    right = await played(play, has_key=True)
    plant(monkeypatch)
    assert (await played(play, has_key=True))[expected] != right[expected]
