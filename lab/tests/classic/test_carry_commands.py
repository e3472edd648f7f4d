"""`tidegate link acls`, `quotas` and `users`, as an operator runs them, with a model source."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
import trio
from typer.testing import CliRunner

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.quotas import QuotaEntity, QuotaKey
from tidegate_coordination.state.security.scram import ScramMechanism
from tidegate_gateway.cli.link import carrying, users
from tidegate_gateway.cli.link.command import app
from tidegate_gateway.cli.link.looks import authorizer_findings
from tidegate_gateway.cli.link.password_file import write_passwords
from tidegate_gateway.migration.survey.looking import ACLS, NO_ACLS, Finding
from tidegate_simulation.classic import rights
from tidegate_simulation.classic.dial import open_servers
from tidegate_simulation.classic.model_cluster import ModelCluster

DEV = ("dev", "--port", "0", "--admin-port", "0")
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def acl(name: str = "t", permission: int = Permission.ALLOW, host: str = "*") -> Acl:
    pattern, kind = PatternType.LITERAL, ResourceType.TOPIC
    return Acl(kind, pattern, name, "User:bob", host, Operation.READ, permission)


# -- the whole way ---------------------------------------------------------------------------------


@dataclass
class Source:
    """A model broker at a port of the loopback, in a thread of its own."""

    cluster: ModelCluster
    address: str = ""


@contextmanager
def a_source() -> Iterator[Source]:
    source = Source(ModelCluster(Random(1)))
    is_ready, token, scope = Event(), [], trio.CancelScope()

    async def serve() -> None:
        token.append(trio.lowlevel.current_trio_token())
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        source.cluster.add_broker(1, "127.0.0.1", port)
        source.cluster.create_topic("t", 1)
        source.address = f"127.0.0.1:{port}"
        with scope:
            async with open_servers(source.cluster, Random(2)) as servers:
                is_ready.set()
                await trio.serve_listeners(partial(servers.serve, 1), [listener])

    thread = Thread(target=partial(trio.run, serve))
    thread.start()
    assert is_ready.wait(PATIENCE_SECONDS)
    try:
        yield source
    finally:
        token[0].run_sync_soon(scope.cancel)
        thread.join(PATIENCE_SECONDS)


class Operator:
    """Runs commands of `tidegate link` in this process, since a start of Python takes a second."""

    def __init__(self, data: Path) -> None:
        self._where = ("--data", str(data))

    def shown(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        done = CliRunner().invoke(app, [*words, *self._where], prog_name="tidegate link")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def run(self, *words: str) -> tuple[int, Any]:
        """Return exit code, and the printed JSON, or else stderr."""
        code, printed, said = self.shown(*words, "--json")
        return code, json.loads(printed) if printed else said


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setattr("tidegate_gateway.cli.existing_cluster.configure_logs", lambda _: None)
    return Operator(tmp_path / "tidegate-data")


@contextmanager
def linked(tmp_path: Path, operator: Operator, *more: str) -> Iterator[ModelCluster]:
    """A gateway with link `old` to a source.  more: its options."""
    with a_source() as source, serving(*DEV, *more, cwd=tmp_path):
        words = ("add", "old", "--bootstrap-servers", source.address, "--topics", "t")
        assert operator.run(*words)[0] == 0
        yield source.cluster


def test_rights_and_quotas_move(tmp_path: Path, operator: Operator) -> None:
    run = operator.run
    with linked(tmp_path, operator) as source:
        source.security.acls = {acl(), acl("t", Permission.DENY), acl("other")}
        code, told = run("acls", "old", "--dry-run", "--only-linked")
        assert (code, len(told["missing"]), told["added"]) == (1, 2, 0)
        assert told["missing"][0]["permission"] == "DENY"
        assert "give --yes or --dry-run" in run("acls", "old")[1]
        code, told = run("acls", "old", "--yes")
        assert (code, told["added"], told["problem"]) == (0, 3, None)
        assert told["gateways_have_authorizer"] is False
        assert run("acls", "old", "--dry-run")[0] == 0
        source.security.acls = None
        assert run("acls", "old", "--yes") == (0, {"has_authorizer": False})

        source.security.quotas = {QuotaEntity("bob"): {QuotaKey.PRODUCE: 1024.0}}
        code, told = run("quotas", "old", "--dry-run")
        assert (code, told["different"][0]["source"]) == (1, 1024.0)
        assert run("quotas", "old", "--yes")[1]["changed"] == 1
        source.security.quotas = {}
        assert run("quotas", "old", "--dry-run")[0] == 0
        code, told = run("quotas", "old", "--prune", "--yes")
        assert (code, told["only_here"][0]["entity"]) == (0, {"user": "bob"})


def test_where_shared_quotas_hold_is_told(tmp_path: Path, operator: Operator) -> None:
    shares = ("--set", "quota.scope=cluster", "--set", "peer.listener=127.0.0.1:0")
    with linked(tmp_path, operator, *shares) as source:
        _, printed, _ = operator.shown("quotas", "old", "--dry-run")
        assert "share" not in printed
        source.add_broker(2, "127.0.0.1", source.nodes[1].port)
        _, printed, _ = operator.shown("quotas", "old", "--dry-run")
        assert "hold once here, and at each of the 2 brokers there." in printed


def test_users_get_new_passwords(tmp_path: Path, operator: Operator) -> None:
    run, made, given = operator.run, tmp_path / "new.json", tmp_path / "given.json"
    with linked(tmp_path, operator) as source:
        source.security.users = {"bob": {SHA_256: 4096}, "eve": {SHA_256: 4096, SHA_512: 4096}}
        code, told = run("users", "old")
        assert (code, [each["is_here"] for each in told["users"]]) == (0, [False, False])
        words = ("users", "old", "--user", "bob", "--generate", str(made), "--plain", "--yes")
        assert run(*words)[1]["set"] == ["bob"]
        assert list(json.loads(made.read_text())) == ["bob"]
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        assert "File exists" in run(*words, "--replace")[1]
        write_passwords(given, {"eve": "secret", "bob": "other"})
        code, told = run("users", "old", "--passwords", str(given), "--plain", "--yes")
        assert (code, told["set"]) == (0, ["eve"])
        assert [each["is_here"] for each in run("users", "old")[1]["users"]] == [True] * 2
        assert "no SCRAM user 'mallory'" in run("users", "old", "--user", "mallory")[1]

        source.rights.denied.add(rights.Denial(rights.DESCRIBE, rights.CLUSTER))
        code, told = run("users", "old")
        assert (code, told.count("\n")) == (2, 1)
        assert "give the link's principal DESCRIBE of the cluster there" in told


def test_users_are_sealed_as_the_gateways_seal_them(tmp_path: Path, operator: Operator) -> None:
    key, other, given = (tmp_path / name for name in ("key", "other", "given.json"))
    key.write_text("k" * 32 + "\n")
    other.write_text("o" * 32)
    write_passwords(given, {"bob": "first", "eve": "second"})
    of_bob = ("users", "old", "--user", "bob", "--passwords", str(given), "--yes")
    of_eve = ("users", "old", "--user", "eve", "--passwords", str(given), "--yes")
    with linked(
        tmp_path, operator, "--set", f"metadata.secret.key={key.read_text().strip()}"
    ) as it:
        it.security.users = {"bob": {SHA_256: 4096}, "eve": {SHA_256: 4096}}
        assert "or --plain if they have none" in operator.run(*of_bob)[1]
        code, printed, said = operator.shown(*of_bob, "--secret-key", str(key))
        assert (code, "1 user got a password here." in printed) == (0, True)
        assert "nothing proves that the file of --secret-key" in said
        assert "--secret-key FILE with their metadata.secret.key" in operator.run(*of_eve)[1]
        assert "no credential" in operator.run(*of_eve, "--secret-key", str(other))[1]
        assert "No such file" in operator.run(*of_eve, "--secret-key", str(tmp_path / "no"))[1]
        assert "not both" in operator.run(*of_eve, "--secret-key", str(key), "--plain")[1]
        code, _, said = operator.shown(*of_eve, "--secret-key", str(key))
        assert (code, said) == (0, "")
        code, _, said = operator.shown(*of_eve, "--plain")
        assert (code, said) == (0, "")  # there is no user to be set
        code, _, said = operator.shown(*of_eve, "--plain", "--replace")
        assert (code, said) == (
            0,
            "Other credentials of the cluster are sealed. These will be plain in the metadata log"
            " and its backups.\n",
        )


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return a list of functions to run while a command asks for confirmation, and gets it."""
    others: list[Callable[[], object]] = []

    async def agreed(question: str, *, yes: bool) -> bool:
        for each in () if yes else others:
            await trio.to_thread.run_sync(each)
        return True

    for module in (carrying, users):
        monkeypatch.setattr(module, "agreed", agreed)
    return others


def test_what_was_agreed_to_must_hold_after_the_answer(
    tmp_path: Path, operator: Operator, meanwhile: list[Callable[[], object]]
) -> None:
    with linked(tmp_path, operator) as source:
        source.security.acls = {acl()}
        source.security.quotas = {QuotaEntity("bob"): {QuotaKey.PRODUCE: 1024.0}}
        meanwhile[:] = [lambda: setattr(source.security, "acls", {acl(), acl("u")})]
        code, printed, _ = operator.shown("acls", "old")
        assert (code, printed.splitlines()[-1]) == (1, carrying.CHANGED_MEANWHILE)
        meanwhile[:] = [lambda: operator.run("quotas", "old", "--yes")]
        code, printed, _ = operator.shown("quotas", "old")
        assert (code, printed.splitlines()[-1]) == (1, carrying.CHANGED_MEANWHILE)
        meanwhile.clear()
        code, printed, _ = operator.shown("acls", "old")
        assert (code, printed.splitlines()[-1]) == (
            0,
            "2 ACLs added, what denies before what allows.",
        )
        source.security.quotas = {}
        code, printed, _ = operator.shown("quotas", "old", "--prune")
        assert (code, printed.splitlines()[-1]) == (0, "1 quota changed.")


def test_a_password_that_was_set_meanwhile_stays(
    tmp_path: Path, operator: Operator, meanwhile: list[Callable[[], object]]
) -> None:
    given, made = tmp_path / "given.json", tmp_path / "made.json"
    write_passwords(given, {"bob": "others"})
    with linked(tmp_path, operator) as source:
        source.security.users = {"bob": {SHA_256: 4096}, "eve": {SHA_256: 4096}}
        words = ("users", "old", "--passwords", str(given), "--plain", "--yes")
        meanwhile[:] = [lambda: operator.run(*words)]
        code, printed, _ = operator.shown("users", "old", "--generate", str(made), "--plain")
        assert code == 0
        assert "1 user got a password here." in printed
        assert "1 user had one, and kept it" in printed
        assert list(json.loads(made.read_text())) == ["eve"]


def test_a_person_sees_what_is_here_and_what_gateways_lack(
    tmp_path: Path, operator: Operator
) -> None:
    with linked(tmp_path, operator) as source:
        source.security.acls = {acl()}
        code, printed, said = operator.shown("acls", "old")
        assert code == 1
        assert "ALLOW  User:bob  READ  TOPIC t" in printed
        assert "The gateways have no authorizer" in printed
        assert "There is no terminal to answer at: give --yes." in said
        code, printed, _ = operator.shown("check", "old")
        assert code == 0
        assert "warning ACLs of the topics are here: not all of t;" in printed
        assert "warning the gateways have an authorizer if the source has one: The" in printed
        code, printed, _ = operator.shown("plan", "old")
        assert code == 0
        assert ", without 1 ACL of the source" in printed


def test_switch_tells_of_acls_before_it_asks(tmp_path: Path, operator: Operator) -> None:
    with linked(tmp_path, operator) as source:
        source.security.acls = {acl()}
        assert any(operator.run("status", "old")[1]["copies"] for _ in range(100))
        code, printed, _ = operator.shown("switch", "old", "t")
        assert code == 1
        told = (
            "ACLs of the source about 1 of these topics are not here: see `tidegate link acls old`."
        )
        assert printed.splitlines()[-1] == told
        assert operator.run("acls", "old", "--yes")[0] == 0
        assert told not in operator.shown("switch", "old", "t")[1]


def test_check_compares_the_authorizers() -> None:
    with_acls, without = [Finding(ACLS)], [Finding(NO_ACLS)]
    [lacking] = authorizer_findings(with_acls, here=False)
    assert lacking.warning.startswith("The gateways have no authorizer")
    [alone] = authorizer_findings(without, here=True)
    assert "the source has none" in alone.warning
    for found, here in ((with_acls, True), (without, False), (with_acls, None), (without, None)):
        assert authorizer_findings(found, here=here) == []
