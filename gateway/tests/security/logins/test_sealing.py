"""SCRAM credentials under metadata.secret.key: sealed, opened, and bound to their user."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from scramp import ScramClient
from structlog.testing import capture_logs

from tests.security.logins.test_scram_credentials import alter, describe, drop, set_
from tests.worlds.security.sasl_client import LISTENER, authenticate, handshake, sasl_settings
from tests.worlds.wire_client import WireWorld, wire_world
from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    Resealing,
    SealScramCredentials,
)
from tidegate_coordination.state.security.scram import (
    KeptCredential,
    ScramCredential,
    ScramMechanism,
    ScramTable,
    fingerprint,
)
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials
from tidegate_gateway.security.sasl.scram import CannotOpen, ScramConversation, made_up
from tidegate_gateway.security.sasl.scram_keys import credential_of
from tidegate_gateway.security.sealing import Sealing, refuse_missing_keys, sealing_of
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.upkeep.resealing import ROWS_A_TURN
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

KEY, NEXT_KEY = "K" * 32, "N" * 32
ALICE = ScramCredential(
    "alice", 1, b"the salt of alice", b"stored key" * 3, b"server key" * 3, 4_096
)


def numbered() -> Callable[[int], bytes]:
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size)


def keys(key: str = KEY, *old: str) -> Sealing:
    return Sealing(Secret(key), map(Secret, old), numbered())


def test_a_credential_is_sealed_and_opened() -> None:
    sealing = keys()
    kept = sealing.sealed(ALICE)
    assert sealing.opened(kept) == ALICE
    assert sealing.opened(ALICE) is ALICE
    assert (sealing.is_current(kept), sealing.is_current(ALICE)) == (True, False)
    data = msgspec.msgpack.encode(kept)
    assert not any(each in data for each in (ALICE.salt, ALICE.stored_key, ALICE.server_key))
    assert sealing.sealed(ALICE).nonce != kept.nonce


@pytest.mark.parametrize(
    "change",
    [
        {"user": "mallory"},
        {"mechanism": 2},
        {"iterations": 8_192},
        {"nonce": bytes(12)},
        {"sealed": bytes(80)},
    ],
)
def test_a_row_that_was_moved_or_changed_stays_closed(change: dict[str, object]) -> None:
    sealing = keys()
    with pytest.raises(CannotOpen, match="was changed"):
        sealing.opened(msgspec.structs.replace(sealing.sealed(ALICE), **change))


def test_another_key_does_not_open_it() -> None:
    kept = keys().sealed(ALICE)
    with pytest.raises(CannotOpen, match=r"neither in metadata\.secret\.key nor in .*old\.keys"):
        keys(NEXT_KEY).opened(kept)
    with pytest.raises(CannotOpen):
        keys("").opened(kept)
    assert keys(NEXT_KEY, KEY).opened(kept) == ALICE
    assert not keys(NEXT_KEY, KEY).is_current(kept)
    assert keys("", KEY).opened(kept) == ALICE


def test_a_gateway_without_the_key_does_not_start() -> None:
    kept: list[KeptCredential] = [ALICE, keys().sealed(ALICE)]
    refuse_missing_keys(keys("", KEY), kept)
    refuse_missing_keys(keys(""), kept[:1])
    for wrong in (keys(""), keys(NEXT_KEY)):
        with pytest.raises(SettingsError, match="give it the keys of the others") as refused:
            refuse_missing_keys(wrong, kept)
        assert KEY not in str(refused.value)
        assert "`tidegate user forget-sealed`" in str(refused.value)


def test_each_user_is_named_once() -> None:
    other = msgspec.structs.replace(ALICE, mechanism=2)
    kept: list[KeptCredential] = [keys().sealed(each) for each in (ALICE, other)]
    with pytest.raises(SettingsError, match=r"cluster \(alice\) are"):
        refuse_missing_keys(keys(NEXT_KEY), kept)


@pytest.mark.parametrize("key", ["a,b" * 16, "a b" * 16, "a\tb" * 16])
def test_a_key_that_could_not_be_an_old_one_is_refused(key: str) -> None:
    settings = BrokerSettings({"metadata.secret.key": key})
    with pytest.raises(SettingsError, match="a comma or white space: make one") as refused:
        sealing_of(settings, bytes)
    assert key not in str(refused.value)


@pytest.mark.parametrize("name", ["metadata.secret.key", "metadata.secret.old.keys"])
def test_a_short_key_is_refused(name: str) -> None:
    settings = BrokerSettings({name: "short-and-secret"})
    with pytest.raises(SettingsError, match=f"{name} has a key of fewer than 32") as refused:
        sealing_of(settings, bytes)
    assert "short-and-secret" not in str(refused.value)


def test_a_login_without_the_key_fails_as_that_of_an_unknown_user() -> None:
    """The client gets the answer for an unknown user; the audit log tells the reason."""

    def lookup(_mechanism: str, user: str) -> ScramCredential | None:
        if user == "alice":
            raise CannotOpen("its key is missing")
        return None

    salts: dict[str, bytes] = {}
    for user, why in (("alice", "its key is missing"), ("nobody", "there is no such user")):
        talk = ScramConversation("SCRAM-SHA-256", lookup, "servernonce", b"secret")
        first = talk.step(f"n,,n={user},r=clientnonce".encode())
        salts[user] = first.split(b",")[1]
        with pytest.raises(InvalidCredentials, match=why):
            talk.step(b"c=biws,r=clientnonceservernonce,p=" + b"A" * 43 + b"=")
    strangers = {each: made_up("SCRAM-SHA-256", each, b"secret").salt for each in salts}
    assert salts == {user: b"s=" + b64encode(salt) for user, salt in strangers.items()}


def secrets_of(settings: str = "", old: str = "") -> dict[str, str]:
    return sasl_settings(mechanisms="SCRAM-SHA-256") | {
        "metadata.secret.key": settings,
        "metadata.secret.old.keys": old,
    }


def password_of(user: str, password: str) -> asc.ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"the salt of alice", 4_096)
    return asc.ScramCredentialUpsertion(user, 1, 4_096, b"the salt of alice", salted)


async def logs_in(world: WireWorld, user: str, password: str) -> bool:
    client = world.connect(listener=LISTENER)
    assert (await handshake(client, "SCRAM-SHA-256")).error_code == 0
    talk: Any = ScramClient(["SCRAM-SHA-256"], user, password)
    answer = await authenticate(client, talk.get_client_first().encode())
    assert answer.error_code == 0
    talk.set_server_first(answer.auth_bytes.decode())
    answer = await authenticate(client, talk.get_client_final().encode())
    return answer.error_code == 0


def sealed_of(world: WireWorld) -> dict[str, bool]:
    """Return by user whether the present credential is sealed with the gateway's key."""
    gateway = world.gateway
    return {each.user: gateway.sealing.is_current(each) for each in gateway.coordinator.state.scram}


async def bytes_of(log: MemoryLog) -> bytes:
    found = await log.read(1, 1 << 20)
    assert isinstance(found, list)
    return b"".join(each.payload for each in found)


LISTENERS = ("PLAINTEXT", LISTENER)


async def test_credentials_go_sealed_to_the_log_and_open_for_logins() -> None:
    log = MemoryLog()
    async with wire_world(secrets_of(KEY), log=log, listeners=LISTENERS) as world:
        client = world.connect()
        assert await alter(client, password_of("alice", "good"), set_("bob", 2)) == {
            "alice": (0, None),
            "bob": (0, None),
        }
        both = {"alice": (0, "", [(1, 4096)]), "bob": (0, "", [(2, 4096)])}
        assert await describe(client) == both
        assert sealed_of(world) == {"alice": True, "bob": True}
        assert await logs_in(world, "alice", "good")
        assert not await logs_in(world, "alice", "bad")
        assert b"the salt of alice" not in await bytes_of(log)
        assert b"the salt of alice" not in world.gateway.coordinator.state.encode()
        assert await alter(client, drop("bob", 2)) == {"bob": (0, None)}


async def test_without_a_key_they_stay_plain() -> None:
    log = MemoryLog()
    async with wire_world(secrets_of(), log=log, listeners=LISTENERS) as world:
        await alter(world.connect(), password_of("alice", "good"))
        assert b"the salt of alice" in await bytes_of(log)
        assert await logs_in(world, "alice", "good")


async def test_plain_ones_are_sealed_at_the_next_start_and_keys_can_be_replaced() -> None:
    log = MemoryLog()
    async with wire_world(secrets_of(), log=log, listeners=LISTENERS) as world:
        await alter(world.connect(), password_of("alice", "good"), set_("bob", 2))
    for settings in (
        secrets_of("", KEY),  # the gateway can open secrets, and seals none
        secrets_of(KEY),
        secrets_of(KEY, NEXT_KEY),
        secrets_of(NEXT_KEY, KEY),
        secrets_of(NEXT_KEY),
    ):
        async with wire_world(settings, log=log, listeners=LISTENERS) as world:
            await trio.testing.wait_all_tasks_blocked()
            is_sealed = settings["metadata.secret.key"] != ""
            assert sealed_of(world) == {"alice": is_sealed, "bob": is_sealed}
            assert await logs_in(world, "alice", "good")
            assert b"the salt of alice" in world.gateway.coordinator.state.encode() or is_sealed
    with pytest.RaisesGroup(
        pytest.RaisesExc(SettingsError, match="alice, bob"), flatten_subgroups=True
    ):
        async with wire_world(secrets_of(KEY), log=log, listeners=LISTENERS):
            pytest.fail("a gateway started without the key")


async def test_plain_ones_that_come_later_are_sealed_at_once() -> None:
    """A gateway or a command without the key may set plain secrets."""
    async with wire_world(secrets_of(KEY), listeners=LISTENERS) as world:
        await alter(world.connect(), password_of("alice", "good"))
        coordinator = world.gateway.coordinator
        row = password_of("bob", "good")
        plain = credential_of(
            "bob", ScramMechanism.SCRAM_SHA_256, row.salt, row.salted_password, row.iterations
        )
        for _ in range(2):
            assert await coordinator.propose(AlterScramCredentials([plain])) == [None]
            await trio.testing.wait_all_tasks_blocked()
            assert sealed_of(world) == {"alice": True, "bob": True}
            assert await logs_in(world, "bob", "good")


class Pieces(trio.abc.Instrument):
    """Counts calls: total, and the largest number between two checkpoints of a task."""

    def __init__(self) -> None:
        self.total = Counter[str]()
        self.largest = Counter[str]()
        self._now = Counter[str]()

    def watch(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*given: Any) -> Any:
            self.total[name] += 1
            self._now[name] += 1
            return real(*given)

        patch.setattr(owner, name, call)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.largest |= self._now
        self._now.clear()


async def test_many_are_read_once_and_sealed_in_small_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = [f"user {number}" for number in range(2 * ROWS_A_TURN + 50)]
    pieces = Pieces()
    pieces.watch(monkeypatch, ScramTable, "of_user")
    pieces.watch(monkeypatch, Sealing, "sealed")
    async with wire_world(secrets_of(KEY), listeners=LISTENERS) as world:
        plain = [msgspec.structs.replace(ALICE, user=each) for each in users]
        trio.lowlevel.add_instrument(pieces)
        assert not any(await world.gateway.coordinator.propose(AlterScramCredentials(plain)))
        await trio.testing.wait_all_tasks_blocked()
        assert pieces.largest == {"of_user": ROWS_A_TURN, "sealed": ROWS_A_TURN}
        # read once when they arrived, and once when they were sealed
        assert pieces.total == {"of_user": 2 * len(users), "sealed": len(users)}
        trio.lowlevel.remove_instrument(pieces)
        assert sealed_of(world) == dict.fromkeys(users, True)


async def test_below_its_level_no_plain_secret_goes_to_the_log() -> None:
    log = MemoryLog()
    old = wire_world(secrets_of(), log=log, highest_version=SEALS - 1, listeners=LISTENERS)
    async with old as world:
        await alter(world.connect(), password_of("alice", "good"))
    async with wire_world(secrets_of(KEY), log=log, listeners=LISTENERS) as world:
        client = world.connect()
        found = await alter(client, password_of("bob", "good"), drop("nobody"))
        assert found["bob"][0] == ErrorCode.UNSUPPORTED_VERSION
        assert f"={SEALS}" in (found["bob"][1] or "")
        assert found["nobody"][0] == ErrorCode.RESOURCE_NOT_FOUND
        assert sealed_of(world) == {"alice": False}
        assert await logs_in(world, "alice", "good")
        assert await world.gateway.coordinator.propose(SetMetadataVersion(SEALS)) == ""
        await trio.testing.wait_all_tasks_blocked()
        assert sealed_of(world) == {"alice": True}
        assert await logs_in(world, "alice", "good")


@pytest.mark.parametrize("key", ["", KEY])
async def test_a_gateway_tells_of_a_key_that_it_lacks_while_it_runs(key: str) -> None:
    foreign = keys(NEXT_KEY)
    async with wire_world(secrets_of(key), listeners=LISTENERS) as world:
        coordinator = world.gateway.coordinator
        with capture_logs() as lines:
            for user in ("alice", "bob", "bob"):
                row = foreign.sealed(msgspec.structs.replace(ALICE, user=user))
                assert await coordinator.propose(AlterScramCredentials((), sealed=[row])) == [None]
                await trio.testing.wait_all_tasks_blocked()
                await alter(world.connect(), set_("eve", 2))
                await trio.testing.wait_all_tasks_blocked()
        told = [each for each in lines if each["log_level"] == "error"]
        assert [each["count"] for each in told] == [1, 2, 2]
        assert all("remove these credentials with" in each["event"] for each in told)
        assert not await logs_in(world, "alice", "good")


async def test_a_password_that_changes_meanwhile_is_not_undone() -> None:
    async with wire_world(secrets_of(), listeners=LISTENERS) as world:
        coordinator = world.gateway.coordinator
        await alter(world.connect(), password_of("alice", "old"))
        [kept] = coordinator.state.scram
        assert isinstance(kept, ScramCredential)
        late = SealScramCredentials([Resealing(fingerprint(kept), keys().sealed(kept))])
        await alter(world.connect(), password_of("alice", "new"))
        assert await coordinator.propose(late) == 0
        assert await logs_in(world, "alice", "new")
