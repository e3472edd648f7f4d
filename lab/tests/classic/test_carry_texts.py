"""The texts of `tidegate link acls`, `quotas` and `users`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.classic.test_carry_commands import SHA_256, SHA_512, acl
from tidegate_coordination.events.security import ScramCredentialSet
from tidegate_coordination.security.quotas import QuotaKey
from tidegate_coordination.state.security.quotas import ClientQuotaTable
from tidegate_coordination.state.security.scram import ScramTable
from tidegate_gateway.cli.link import acls, quotas, users
from tidegate_gateway.cli.link.password_file import write_passwords
from tidegate_gateway.migration.carry.acl_changes import Carried
from tidegate_gateway.migration.carry.acl_notes import Noted
from tidegate_gateway.migration.carry.acl_plan import AclPlan
from tidegate_gateway.migration.carry.quota_plan import QuotaPlan, quota_plan
from tidegate_gateway.migration.carry.scram_plan import ScramUser
from tidegate_gateway.migration.carry.source_security import SourceQuota
from tidegate_runtime.settings_texts import BadSource

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
