"""Every authentication of the list: a gateway answers as Apache Kafka, or as this file lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from authentications.cases import (
    AGAIN,
    DELAY_MS,
    LISTENERS,
    OPEN,
    cases,
    settings,
)
from authentications.frames import LOGIN, Case
from authentications.scram import ITERATIONS, NONCE, SALT, USERS, Scram
from authentications.seen import CLOSED, seen
from authentications.tokens import published_keys

from tests.worlds.wire_client import Closed, WireClient, WireWorld, wire_world
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.security.oauth.key_place import KeyPlace
from tidegate_protocol.messages import alter_user_scram_credentials as asc

GOLDEN = Path(__file__).parents[3] / "compat-tests" / "expected" / "authentications.json"
RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())
LISTED = cases()
PROTOCOLS = ",".join(
    f"{each}:{'PLAINTEXT' if each == OPEN else 'SASL_PLAINTEXT'}" for each in LISTENERS
)

BAD_PROOF = "Kafka fails to compare such a proof, and closes; here it is a wrong one"
TOO_LONG = "a length that no frame has closes at once"
DIFFERS = {
    **{
        f"scram {size} last {what} proof": BAD_PROOF
        for size in (256, 512)
        for what in ("empty", "short", "long")
    },
    **{
        f"{place} {what}": TOO_LONG
        for place in ("first", "after versions")
        for what in ("http", "tls-hello", "negative-length", "too-long")
    },
    "between too-long": TOO_LONG,
    "bearer message scheme basic": "Kafka fails to say what is wrong, and closes",
}
"""Cases that are answered otherwise, and why."""


async def read_keys(place: KeyPlace) -> bytes:
    return published_keys()


@asynccontextmanager
async def world_of_cases() -> AsyncIterator[WireWorld]:
    texts = settings("file:///keys.json") | {"listener.security.protocol.map": PROTOCOLS}
    async with wire_world(texts, listeners=LISTENERS, read_keys=read_keys) as world:
        await trio.testing.wait_all_tasks_blocked()
        yield world


async def add_users(world: WireWorld) -> None:
    """Give every user its SCRAM credentials."""
    for mechanism, name in ((1, "sha256"), (2, "sha512")):
        rows = [
            asc.ScramCredentialUpsertion(
                user,
                mechanism,
                ITERATIONS,
                SALT,
                hashlib.pbkdf2_hmac(name, password.encode(), SALT, ITERATIONS),
            )
            for user, password in USERS.items()
        ]
        request = asc.AlterUserScramCredentialsRequest(upsertions=rows)
        client = world.connect(listener="PLAINTEXT")
        answer = await client.call("AlterUserScramCredentials", 0, request)
        assert [each.error_code for each in answer.results] == [0, 0]


async def play(case: Case, client: WireClient) -> list[list[Any]]:
    """Return the facts of each answer, up to the gateway's close."""
    facts: list[list[Any]] = []
    answers: list[bytes] = []
    for step in case.steps:
        await trio.sleep(step.pause_ms / 1000)
        data = step.data if isinstance(step.data, bytes) else step.data(answers)
        with suppress(TransportBroken):
            await client.send(data)
        begun = trio.current_time()
        answer: bytes | None
        try:
            answer = await client.receive()
            answers.append(answer)
        except Closed:
            answer = None
        late = trio.current_time() - begun > 0.8 * DELAY_MS / 1000
        facts.append(seen(answer, step.api, late=late))
        if answer is None:
            return facts
    with trio.move_on_after(0.7):
        try:
            await client.receive()
        except Closed:
            facts.append([CLOSED])
    return facts


async def test_the_gateway_answers_as_kafka_did(autojump_clock: trio.testing.MockClock) -> None:
    found: dict[str, list[list[Any]]] = {}
    async with world_of_cases() as world:
        await add_users(world)
        for case in LISTED:
            client = world.connect(listener=case.listener)
            found[case.name] = await play(case, client)
    assert len(LISTED) > 200
    assert RECORDED.keys() - {"kafka"} == found.keys()
    differing = {name for name in found if found[name] != RECORDED[name]}
    shown = {name: (found[name], RECORDED[name]) for name in differing - DIFFERS.keys()}
    assert shown == {}
    assert differing == DIFFERS.keys()


async def test_what_differs_is_a_refusal_too(autojump_clock: trio.testing.MockClock) -> None:
    async with world_of_cases() as world:
        await add_users(world)
        for case in LISTED:
            if case.name in DIFFERS:
                facts = await play(case, world.connect(listener=case.listener))
                assert facts[-1] == [CLOSED]
                assert RECORDED[case.name][-1][0] == CLOSED


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_an_unknown_user_of_scram_is_not_betrayed(
    autojump_clock: trio.testing.MockClock, mechanism: str
) -> None:
    async with world_of_cases() as world:
        await add_users(world)
        wrong = Case("", Scram(mechanism, password="wrong").steps(), LOGIN)
        unknown = Case("", Scram(mechanism, f"n,,n=carol,r={NONCE}").steps(), LOGIN)
        known_facts = await play(wrong, world.connect(listener=LOGIN))
        facts = [await play(unknown, world.connect(listener=LOGIN)) for _ in range(2)]
        assert facts[0] == facts[1]
        assert facts[0][1][3].endswith(f",i={ITERATIONS}")
        assert facts[0][2:] == known_facts[2:]
        again = Case("", unknown.steps, AGAIN)
        assert (await play(again, world.connect(listener=AGAIN)))[1] == facts[0][1]
