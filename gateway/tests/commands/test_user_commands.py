"""`tidegate user forget-sealed`, as an operator runs it after a key was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner, Result

from tests.worlds.app_world import PATIENCE_SECONDS, serving, tidegate
from tests.worlds.wire_client import wire_world
from tidegate_coordination.rules.security.scram import AlterScramCredentials
from tidegate_coordination.state.security.scram import ScramCredential, SealedCredential
from tidegate_gateway.cli.command import app
from tidegate_gateway.cli.user.forgetting import (
    Forgotten,
    closed_text,
    forget,
    forgotten_json,
    forgotten_text,
)
from tidegate_gateway.security.sealing import Sealing
from tidegate_runtime.secret import Secret

DEV = ("dev", "--port", "0", "--admin-port", "0")
LOST, KEY = "L" * 32, "K" * 32


def sealed(user: str, key: str = LOST, salt: bytes = b"salt") -> SealedCredential:
    plain = ScramCredential(user, 1, salt, b"stored", b"server", 4_096)
    return Sealing(Secret(key), (), bytes).sealed(plain)


def command(data: Path, *words: str) -> Result:
    done = CliRunner().invoke(app, ["user", "forget-sealed", "--data", str(data), *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def set_password(servers: str, user: str) -> None:
    client = AdminClient({"bootstrap.servers": servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    change = UserScramCredentialUpsertion(user, info, b"good", b"salt")
    client.alter_user_scram_credentials([change])[user].result(PATIENCE_SECONDS)


def test_a_cluster_whose_key_is_lost_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_gateway.cli.existing_cluster.configure_logs", lambda _: None)
    data, file = tmp_path / "tidegate-data", tmp_path / "key"
    file.write_text(KEY)
    with serving(*DEV, "--set", f"metadata.secret.key={LOST}", cwd=tmp_path) as gateway:
        set_password(gateway.servers, "alice")
        done = command(data, "--secret-key", str(file))
        assert (done.exit_code, "alice  SCRAM-SHA-256" in done.stdout) == (1, True)
        assert "Gateways are running (1): if one of them has the key" in done.stdout
        assert "give --yes" in done.stderr
        assert gateway.stop()[0] == 0
    refused = tidegate(*DEV, "--set", f"metadata.secret.key={KEY}", cwd=tmp_path)
    assert refused.returncode != 0
    assert "`tidegate user forget-sealed`" in refused.stderr

    for words in ([], ["--all", "--secret-key", str(file)]):
        assert "or --all if no key is left" in command(data, "--yes", *words).stderr
    assert "--json cannot ask" in command(data, "--all", "--json").stderr
    done = command(data, "--secret-key", str(file), "--json", "--yes")
    assert json.loads(done.stdout) == {
        "credentials": [{"user": "alice", "mechanism": "SCRAM-SHA-256", "is_removed": True}],
        "problem": None,
    }
    done = command(data, "--all", "--yes")
    assert (done.exit_code, "nothing is to be removed" in done.stdout) == (0, True)
    with serving(*DEV, "--set", f"metadata.secret.key={KEY}", cwd=tmp_path) as gateway:
        set_password(gateway.servers, "alice")
        done = command(data, "--secret-key", str(file), "--json", "--yes")
        assert json.loads(done.stdout) == {"credentials": [], "problem": None}


async def test_only_what_was_shown_is_removed() -> None:
    async with wire_world() as world:
        coordinator = world.gateway.coordinator
        rows = [sealed("alice"), sealed("bob"), sealed("eve", KEY)]
        await coordinator.propose(AlterScramCredentials((), sealed=rows))
        closed = Sealing(Secret(), [Secret(KEY)], bytes).missing(coordinator.state.scram)
        newer = sealed("bob", salt=b"pepper")
        await coordinator.propose(AlterScramCredentials((), sealed=[newer]))
        result = await forget(coordinator, closed)
        assert result == Forgotten(rows[:2], rows[:1], "some were changed meanwhile.")
        assert list(coordinator.state.scram) == [newer, rows[2]]
        assert forgotten_text(result).splitlines() == [
            "1 credential removed.",
            "1 user needs a new password: set it with kafka-configs.sh.",
            "Not all: some were changed meanwhile. Run it again.",
        ]
        told = json.loads(forgotten_json(result))["credentials"]
        assert [each["is_removed"] for each in told] == [True, False]


def test_every_reason_ends_before_the_advice() -> None:
    for problem in ("the log is full", "the log is full."):
        text = forgotten_text(Forgotten([sealed("alice")], [], problem))
        assert text.splitlines()[1:] == ["Not all: the log is full. Run it again."]


async def test_a_person_is_warned_if_no_key_proves_to_be_right() -> None:
    async with wire_world() as world:
        coordinator = world.gateway.coordinator
        await coordinator.propose(AlterScramCredentials((), sealed=[sealed("a\x1b[2J")]))
        closed = [sealed("a\x1b[2J")]
        shown = closed_text(closed, coordinator.state)
        assert "\x1b" not in shown
        warning = "No sealed credential would be left: make sure that their key is lost."
        assert warning in shown
        await coordinator.propose(AlterScramCredentials((), sealed=[sealed("eve", KEY)]))
        assert warning not in closed_text(closed, coordinator.state)
