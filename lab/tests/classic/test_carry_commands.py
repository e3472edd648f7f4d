"""`tidegate link acls`, `quotas` and `users`, as an operator runs them, with a model source."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
import trio
from typer.testing import CliRunner

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tidegate_coordination.events.security import ScramCredentialSet
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.quotas import QuotaEntity, QuotaKey
from tidegate_coordination.state.quotas import ClientQuotaTable
from tidegate_coordination.state.scram import ScramMechanism, ScramTable
from tidegate_gateway.cli.link import acls, carrying, quotas, users
from tidegate_gateway.cli.link.command import app
from tidegate_gateway.cli.link.looks import authorizer_findings
from tidegate_gateway.cli.link.password_file import write_passwords
from tidegate_gateway.links.acl_carrying import Carried
from tidegate_gateway.links.acl_notes import Noted
from tidegate_gateway.links.acl_plan import AclPlan
from tidegate_gateway.links.quota_plan import QuotaPlan, quota_plan
from tidegate_gateway.links.scram_plan import ScramUser
from tidegate_gateway.links.source_security import SourceQuota
from tidegate_gateway.links.survey import ACLS, NO_ACLS, Finding
from tidegate_runtime.settings_texts import BadSource
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
    """Runs commands of `tidegate link` in this process; a start of Python takes a second."""

    def __init__(self, data: Path) -> None:
        self._where = ("--data", str(data))

    def shown(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, what is printed, and what is said of errors."""
        done = CliRunner().invoke(app, [*words, *self._where], prog_name="tidegate link")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def run(self, *words: str) -> tuple[int, Any]:
        """Return exit code and what is printed as JSON, or what is said of an error."""
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
    """What others do while a person, who agrees, is asked."""
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


# -- what is printed -------------------------------------------------------------------------------


def compared(plan: AclPlan) -> acls.Compared:
    return acls.Compared(plan, True, {})


def acl_result(plan: AclPlan, done: Carried, *, is_trial: bool) -> acls.AclResult:
    return acls.AclResult(compared(plan), done, is_trial, None)


def test_what_acls_prints() -> None:
    rows = [acl(f"t{each}") for each in range(60)]
    noted = [Noted(acl("\x1b[2J"), "why")]
    plan = AclPlan(1, rows, [acl("x"), acl("y")], [acl("y")], [], noted)
    shown = acls.acls_text(compared(plan))
    for line in ("  and 10 more; --json shows all", "only here, to be removed:", "only here:"):
        assert line in shown.splitlines()
    assert "\x1b" not in shown
    assert shown.endswith("1 ACL of the source is here.")
    trial = acl_result(plan, Carried(0, 0), is_trial=True)
    assert "60 would be added, and 1 removed" in acls.done_text(trial)
    assert not trial.is_well
    halted = acl_result(plan, Carried(5, 0, "no log."), is_trial=False)
    assert "Not all: no log." in acls.done_text(halted)
    assert (halted.is_well, json.loads(acls.acls_json(halted))["problem"]) == (False, "no log.")
    pruned = AclPlan(0, [], rows, rows, [], [])
    assert len(acls.acls_text(compared(pruned)).splitlines()) == 62
    done = acl_result(plan, Carried(60, 1), is_trial=False)
    assert (done.is_well, acls.done_text(done).splitlines()[1]) == (True, "1 ACL removed.")
    nothing = acl_result(AclPlan(3, [], [], [], [], []), Carried(0, 0), is_trial=True)
    assert (nothing.is_well, acls.done_text(nothing)) == (True, "Nothing is to be changed.")


def test_an_acl_that_cannot_be_here_is_not_done() -> None:
    lacking = AclPlan(3, [], [], [], [Noted(acl("\x1b[2J"), "why")], [])
    result = acl_result(lacking, Carried(0, 0), is_trial=True)
    assert (result.is_well, acls.done_text(result)) == (False, "Nothing can be changed.")
    shown = acls.acls_text(compared(lacking))
    assert "cannot be carried over:" in shown
    assert "\x1b" not in shown


def test_names_that_other_topics_have_are_told() -> None:
    plan = AclPlan(0, [], [], [], [], [])
    found = acls.Compared(plan, True, {"b": "the name is taken here: by topic b", "a": "why"})
    assert acls.acls_text(found).splitlines()[:3] == [
        "not topics of the link:",
        "  TOPIC a  why",
        "  TOPIC b  the name is taken here: by topic b",
    ]
    told = json.loads(acls.acls_json(acls.AclResult(found, Carried(0, 0), True, False)))
    assert list(told["names_taken"]) == ["a", "b"]
    assert told["gateways_have_authorizer"] is False


def quota(entity: tuple[tuple[str, str | None], ...], value: float = 1e9) -> SourceQuota:
    return SourceQuota(entity, QuotaKey.FETCH, value)


def test_what_quotas_prints() -> None:
    theirs = [quota((("user", "a\n"), ("client-id", None))), quota((("planet", "mars"),))]
    plan = quota_plan(theirs, ClientQuotaTable(), prunes=True)
    shown = quotas.quotas_text(plan, 3, 2, is_shared=False)
    assert r"user a\n, client-id (default)  consumer_byte_rate  -> 1000000000" in shown
    assert "Unhandled client quota entity type: planet" in shown
    assert "3 there, 2 here" in shown
    assert "there, " not in quotas.quotas_text(plan, 2, 2, is_shared=False)
    trial = quotas.QuotaResult(plan, 0, "", is_trial=True)
    assert (trial.is_well, "1 quota would be" in quotas.done_text(trial)) == (False, True)
    halted = quotas.QuotaResult(plan, 0, "no log.", is_trial=False)
    assert (halted.is_well, "Not all: no log." in quotas.done_text(halted)) == (False, True)
    told = json.loads(quotas.quotas_json(halted))
    assert told["different"][0]["entity"] == {"user": "a\n", "client-id": None}
    assert told["not_carried"][0]["entity"] == {"planet": "mars"}
    done = quotas.QuotaResult(plan._replace(not_carried=[]), 1, "", is_trial=False)
    assert (done.is_well, quotas.done_text(done)) == (True, "1 quota changed.")
    lacking = quotas.QuotaResult(plan._replace(steps=[]), 0, "", is_trial=False)
    assert (lacking.is_well, quotas.done_text(lacking)) == (False, "Nothing can be changed.")
    nothing = quotas.QuotaResult(QuotaPlan(0, [], [], [], prunes=True), 0, "", is_trial=True)
    assert (nothing.is_well, quotas.done_text(nothing)) == (True, "Nothing is to be changed.")


def test_where_quotas_hold() -> None:
    plan = QuotaPlan(0, [], [], [], prunes=False)

    def last_line(brokers: int, gateways: int, *, is_shared: bool) -> str:
        return quotas.quotas_text(plan, brokers, gateways, is_shared=is_shared).splitlines()[-1]

    nothing = "0 quotas of the source are here."
    each = "A quota holds at each broker, and at each gateway: 3 there, 2 here."
    once = (
        "The gateways share quotas (quota.scope=cluster): bytes and mutations hold once here, and"
        " at each of the 3 brokers there."
    )
    assert last_line(3, 2, is_shared=False) == each
    assert last_line(3, 3, is_shared=False) == nothing
    assert last_line(3, 0, is_shared=False) == nothing
    assert last_line(3, 2, is_shared=True) == once
    assert last_line(3, 3, is_shared=True) == once
    assert last_line(1, 3, is_shared=True) == nothing


ALICE = ScramUser("alice", {SHA_256: 4096, SHA_512: 8192}, frozenset({SHA_256, SHA_512}))
BOB = ScramUser("bob", {SHA_256: 4096, SHA_512: 8192}, frozenset({SHA_512}))
CAROL = ScramUser("carol", {SHA_256: 4096}, frozenset())
STAR = ScramUser("*", {SHA_256: 4096}, frozenset({SHA_256}))


def options(
    generate: Path | None = None, passwords: Path | None = None, *, replaces: bool = False
) -> users.UserOptions:
    return users.UserOptions("old", (), generate, passwords, replaces, True, None)


def test_what_users_prints() -> None:
    shown = users.users_text([ALICE, BOB, STAR]).splitlines()
    assert shown == [
        "3 SCRAM users at the source:",
        "  alice  SCRAM-SHA-256 4096, SCRAM-SHA-512 8192  not here",
        "  bob    SCRAM-SHA-256 4096, SCRAM-SHA-512 8192  here, without SCRAM-SHA-512",
        "  *      SCRAM-SHA-256 4096                      PROBLEM: a user cannot be called so here",
    ]
    assert users.users_text([]) == "The source has no SCRAM user."
    looked = users.UserResult([ALICE, BOB, STAR], [])
    assert users.done_text(looked, options()).startswith("1 user cannot log in here yet.")
    done = users.UserResult([ALICE, BOB], ["alice"], "no log.")
    told = users.done_text(done, options(Path("f"))).splitlines()
    assert told[0] == "1 user got a password here."
    assert told[1].startswith("1 user had one, and kept it")
    assert told[2] == "They are in f: hand them out, then delete the file."
    assert told[3] == "Not all: no log. Run it again with --passwords f."
    told = users.done_text(done, options(Path("f"), replaces=True)).splitlines()
    assert told[-1] == "Not all: no log. Run it again with --passwords f --replace."


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([], "Nothing is to be set."),
        ([CAROL], "All of them are here."),
        ([CAROL, STAR], "All that can be here are here."),
        (
            [BOB, CAROL, STAR],
            "1 user cannot log in here with all mechanisms: --replace gives a new password for all"
            " of them.",
        ),
        (
            [ALICE, BOB, CAROL],
            "1 user cannot log in here yet. The source does not tell passwords or keys: give new"
            " ones with --generate FILE or --passwords FILE.\n"
            "1 user cannot log in here with all mechanisms: --replace gives a new password for all"
            " of them.",
        ),
    ],
)
def test_what_users_says_without_passwords(found: list[ScramUser], text: str) -> None:
    assert users.done_text(users.UserResult(found, []), options()) == text


def test_which_users_get_a_password() -> None:
    everyone, file = [ALICE, BOB, STAR], Path("f")
    assert users.chosen_users(everyone, options(file), {}) == [ALICE]
    assert users.chosen_users(everyone, options(file, replaces=True), {}) == [ALICE, BOB]
    given = {"bob": "x"}
    assert users.chosen_users(everyone, options(None, file), given) == []
    assert users.chosen_users(everyone, options(None, file, replaces=True), given) == [BOB]
    for name, text in (("*", "cannot be called so"), ("eve", "no SCRAM user")):
        with pytest.raises(BadSource, match=text):
            users.chosen_users(everyone, options(None, file), {name: "x"})


def test_users_that_got_a_password_meanwhile_are_left_out() -> None:
    now = ScramTable()
    now.fold_set(ScramCredentialSet("bob", SHA_512, b"salt", b"stored", b"server", 8192))
    everyone, file = [ALICE, BOB._replace(missing=frozenset({SHA_256, SHA_512}))], Path("f")
    chosen = users.chosen_users(everyone, options(file), {})
    assert [each.name for each in chosen] == ["alice", "bob"]
    fresh = users.as_now(everyone, now)
    assert fresh == [ALICE, BOB._replace(missing=frozenset({SHA_256}))]
    assert users.still_chosen(chosen, fresh, options(file)) == [ALICE]
    assert users.still_chosen(chosen, fresh, options(file, replaces=True)) == fresh
    assert users.still_chosen([BOB], fresh, options(file)) == []


def test_users_that_are_named_need_a_password_in_the_file(tmp_path: Path) -> None:
    write_passwords(tmp_path / "f", {"alice": "a", "bob": "b"})
    whole = options(None, tmp_path / "f")
    assert users.given_passwords(whole) == {"alice": "a", "bob": "b"}
    assert users.given_passwords(replace(whole, users=("bob",))) == {"bob": "b"}
    assert users.given_passwords(options()) == {}
    with pytest.raises(BadSource, match="user 'eve' is not in it"):
        users.given_passwords(replace(whole, users=("eve",)))


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    both = options(Path("f"), Path("g"))
    with pytest.raises(BadSource, match="not both"):
        both.check(as_json=False)
