"""Which ACLs of a source a link carries over, in which order, and with which notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

import pytest

from tidegate_coordination.events.security import AclsChanged
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.authorizer import Authorizer
from tidegate_coordination.state.security.acls import AclTable
from tidegate_gateway.migration.carry.acl_notes import OwnNames
from tidegate_gateway.migration.carry.acl_plan import AclPlan, MissingAcls, acl_plan
from tidegate_gateway.migration.carry.acl_scope import Names, Scope

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, IDS = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALL, NOTHING = Scope(is_all=True), OwnNames()
OF_LATER_RELEASES = 16
"""An operation that this release does not know."""


def acl(
    name: str = "orders",
    permission: int = ALLOW,
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    principal: str = "User:bob",
    host: str = "*",
    operation: int = READ,
) -> Acl:
    return Acl(kind, pattern, name, principal, host, operation, permission)


def table(rows: Iterable[Acl] = ()) -> AclTable:
    found = AclTable()
    found.fold_changed(AclsChanged(tuple(dict.fromkeys(rows)), ()), position=1)
    return found


def plan(
    theirs: Iterable[Acl],
    ours: Iterable[Acl] = (),
    scope: Scope = ALL,
    own: OwnNames = NOTHING,
    *,
    prunes: bool = False,
) -> AclPlan:
    return acl_plan(theirs, table(ours), scope, own, prunes=prunes)


# -- what differs ----------------------------------------------------------------------------------


def test_what_is_missing_is_added_and_nothing_else_changes() -> None:
    found = plan([acl("a"), acl("b")], [acl("b"), acl("c")])
    assert (found.equal, found.added) == (1, [acl("a")])
    assert (found.only_here, found.removed) == ([acl("c")], [])
    assert not found.is_done
    assert plan([acl("a")], [acl("a"), acl("c")]).is_done


def test_denials_are_added_first_and_removed_last() -> None:
    denial = acl("z", DENY)
    assert plan([acl("a"), denial]).added == [denial, acl("a")]
    pruned = plan([], [denial, acl("a"), acl("zz")], prunes=True)
    assert pruned.removed == [acl("a"), acl("zz"), denial]


def test_what_this_release_does_not_know_is_left_out_and_named() -> None:
    found = plan([acl(kind=9), acl(operation=99), acl(pattern=7), acl()])
    assert found.added == [acl()]
    whys = [each.why for each in found.not_carried]
    assert any("resources of type 9" in each for each in whys)
    assert any("operation 99" in each for each in whys)
    assert len(whys) == 3


OWN = OwnNames(["own-1", "own-2"], ["own-g"], ["own-a", "own-b"], ("billing*",), ("tx*",))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (acl(principal="Group:ops"), "type User here, never Group"),
        (acl(permission=DENY, principal="Group:ops"), "is open to them here"),
        (acl(host="10.0.0.0/8"), "networks are not understood"),
        (acl(host="10.0.0.0/8", permission=DENY), "denies nothing here"),
        (
            acl("kafka-cluster", kind=CLUSTER, operation=Operation.CLUSTER_ACTION),
            "brokers need it among each other",
        ),
        (acl("*"), "topics that are not of this link: own-1 and 1 more"),
        (acl("own-2", pattern=PREFIXED), "topics that are not of this link: own-2"),
        (acl("own-1"), "topics that are not of this link: own-1"),
        (acl("kafka-cluster", kind=CLUSTER, operation=Operation.ALTER), "all of this cluster"),
        (acl("kafka-cluster", kind=CLUSTER, operation=Operation.CREATE), "all of this cluster"),
        (acl("own-g", kind=GROUP), "groups that are not of this link: own-g"),
        (acl("own", kind=GROUP, pattern=PREFIXED), "groups that are not of this link: own-g"),
        (acl("*", kind=IDS), "transactional ids that are not of this link: own-a and 1 more"),
        (acl("bill", kind=GROUP, pattern=PREFIXED), "all groups of this cluster that it names"),
        (acl("*", kind=ResourceType.USER), "all users of this cluster that it names"),
        (acl("t", kind=ResourceType.DELEGATION_TOKEN, pattern=PREFIXED), "delegation tokens of"),
    ],
)
def test_a_person_is_told_what_holds_otherwise_here(row: Acl, why: str) -> None:
    found = plan([row], (), ALL, OWN)
    assert found.added == [row]
    [note] = found.notes
    assert note.acl == row
    assert note.why.endswith(why) or why in note.why


def test_what_holds_as_at_the_source_has_no_note() -> None:
    rows = [
        acl("*", DENY),
        acl("own"),
        acl("own-11"),
        acl("own-1", DENY),
        acl("z", pattern=PREFIXED),
        acl("kafka-cluster", DENY, kind=CLUSTER),
        acl("*", DENY, kind=GROUP),
        acl("billing-1", kind=GROUP),
        acl("billing-1", kind=GROUP, pattern=PREFIXED),
        acl("tx-", kind=IDS, pattern=PREFIXED),
        acl("bob", kind=ResourceType.USER),
    ]
    assert plan(rows, (), ALL, OWN).notes == []


# -- ACLs that stand in for others -----------------------------------------------------------------

STANDS_IN = acl("x", principal="User:admin")


@pytest.mark.parametrize(
    "unknown",
    [
        acl("x", operation=OF_LATER_RELEASES),
        acl("x", DENY, operation=OF_LATER_RELEASES),
        acl("*", operation=OF_LATER_RELEASES),
        acl("x", pattern=PREFIXED, operation=OF_LATER_RELEASES),
        acl("y", pattern=7),
    ],
)
def test_what_closes_a_resource_in_place_of_another_acl_stays(unknown: Acl) -> None:
    ours = [STANDS_IN, acl("y", kind=GROUP)]
    found = plan([unknown], ours, prunes=True)
    assert found.only_here == ours
    assert found.removed == [acl("y", kind=GROUP)]
    [note] = found.notes
    assert note.acl == STANDS_IN
    assert note.why.startswith("it stays: ")
    assert plan([unknown], ours).notes == []


@pytest.mark.parametrize("closing", [acl("x"), acl("*"), acl("x", pattern=PREFIXED)])
def test_nothing_stands_in_where_the_sources_own_acls_close(closing: Acl) -> None:
    unknown = acl("x", operation=OF_LATER_RELEASES)
    assert plan([unknown, closing], [STANDS_IN], prunes=True).removed == [STANDS_IN]


def test_a_wide_acl_that_stays_keeps_the_denials_that_narrow_it() -> None:
    wide, denial, other = acl("*"), acl("y", DENY), acl("z")
    found = plan([acl("x", operation=OF_LATER_RELEASES)], [wide, denial, other], prunes=True)
    assert found.removed == [other]


# -- the question ----------------------------------------------------------------------------------


def test_a_person_agreed_to_what_was_shown() -> None:
    shown = plan([acl("a")], [acl("c")], prunes=True)
    assert shown.asks_as(plan([acl("a")], [acl("c")], prunes=True))
    others = [
        plan([acl("a"), acl("b")], [acl("c")], prunes=True),
        plan([acl("a")], [acl("c"), acl("d")], prunes=True),
        plan([acl("a")], [], prunes=True),
        plan([acl("a"), acl(operation=OF_LATER_RELEASES)], [acl("c")], prunes=True),
        plan([acl("a")], [acl("c")], ALL, OwnNames(["a"]), prunes=True),
    ]
    assert not any(shown.asks_as(each) for each in others)
    one, two = OwnNames(["a"]), OwnNames(["a", "b"])
    assert plan([acl("*")], (), ALL, one).asks_as(plan([acl("*")], (), ALL, two))


# -- only what the link has ------------------------------------------------------------------------

LINKED = Scope(False, Names({"orders", "orders-dlq"}), ("billing*", "one"), ("tx",))


@pytest.mark.parametrize(
    ("row", "is_touched", "is_held"),
    [
        (acl("orders"), True, True),
        (acl("payroll"), False, False),
        (acl("*"), True, False),
        (acl("ord", pattern=PREFIXED), True, False),
        (acl("orders-d", pattern=PREFIXED), True, False),
        (acl("p", pattern=PREFIXED), False, False),
        (acl("billing-1", kind=GROUP), True, True),
        (acl("billing-", kind=GROUP, pattern=PREFIXED), True, True),
        (acl("bill", kind=GROUP, pattern=PREFIXED), True, False),
        (acl("bill", kind=GROUP), False, False),
        (acl("one", kind=GROUP), True, True),
        (acl("one", kind=GROUP, pattern=PREFIXED), True, False),
        (acl("*", kind=GROUP), True, False),
        (acl("two", kind=GROUP), False, False),
        (acl("tx", kind=IDS), True, True),
        (acl("t", kind=IDS, pattern=PREFIXED), True, False),
        (acl("billing-1", kind=IDS), False, False),
        (acl("kafka-cluster", kind=CLUSTER), False, False),
    ],
)
def test_the_scope_of_a_link(row: Acl, is_touched: bool, is_held: bool) -> None:
    assert (LINKED.touches(row), LINKED.holds(row)) == (is_touched, is_held)
    assert (ALL.touches(row), ALL.holds(row)) == (True, True)


def test_names_are_found_as_acls_mean_them() -> None:
    rng = Random(7)

    def drawn() -> str:
        return "".join(rng.choices("ab*", k=rng.randint(1, 3)))

    def is_about(row: Acl, name: str) -> bool:
        if row.pattern_type == PREFIXED:
            return name.startswith(row.name)
        return row.name in (name, "*")

    for _ in range(500):
        names = sorted({drawn() for _ in range(rng.randint(0, 6))})
        row = acl(drawn(), pattern=rng.choice((LITERAL, PREFIXED, 7)))
        found = [each for each in names if is_about(row, each)]
        assert Names(names).about(row) == (found[0] if found else "", len(found)), (row, names)
        assert [each in Names(names) for each in names] == [True] * len(names)
        assert ("" if not names else names[-1] + "a") not in Names(names)
        assert Scope(False, Names(names)).touches(row) == bool(found), (row, names)


def test_only_what_is_the_links_alone_is_removed() -> None:
    ours = [acl("*"), acl("orders"), acl("payroll")]
    found = plan([], ours, LINKED, prunes=True)
    assert found.only_here == [acl("*"), acl("orders")]
    assert found.removed == [acl("orders")]


def test_a_wide_permission_comes_with_the_denials_that_narrow_it() -> None:
    denial, other = acl("payroll", DENY), acl("payroll", DENY, kind=GROUP)
    assert plan([acl("*"), denial, other], (), LINKED).added == [denial, acl("*")]
    assert plan([acl("orders"), denial], (), LINKED).added == [acl("orders")]


def test_acls_about_a_topic_that_are_missing_are_counted() -> None:
    rows = [acl("a"), acl("a", DENY), acl("*"), acl("a", pattern=PREFIXED), acl("a", kind=GROUP)]
    missing = MissingAcls(rows, table([acl("a")]))
    assert (missing.count("a"), missing.count("ab"), missing.count("b")) == (3, 2, 1)


# -- the decisions ---------------------------------------------------------------------------------

_QUESTIONS = list(
    product(
        ("User:bob", "User:eve"),
        ("h", "i"),
        (READ, WRITE, DESCRIBE),
        (TOPIC, CLUSTER),
        ("a", "ab", "b"),
    )
)


_KNOWN = (READ, WRITE, DESCRIBE, Operation.ALL, Operation.ALTER)


def drawn(rng: Random, count: int, operations: tuple[int, ...] = _KNOWN) -> set[Acl]:
    return {
        Acl(
            rng.choice((TOPIC, TOPIC, TOPIC, CLUSTER)),
            rng.choice((LITERAL, LITERAL, PREFIXED)),
            rng.choice(("a", "ab", "b", "*")),
            rng.choice(("User:bob", "User:eve", "User:*", "Group:g")),
            rng.choice(("*", "*", "h")),
            rng.choice(operations),
            rng.choice((ALLOW, ALLOW, DENY)),
        )
        for _ in range(count)
    }


def allowed(acls: AclTable, *, open_to_all: bool) -> set[object]:
    """Return the questions that these ACLs allow, for names and by type."""
    decides = Authorizer(acls.index, frozenset(), allows_everyone=open_to_all)
    names = {each for each in _QUESTIONS if decides.may(*each)}
    return names | {each[:4] for each in _QUESTIONS if decides.may_any(*each[:4])}


def moments(ours: AclTable, wanted: AclPlan) -> Iterator[AclTable]:
    """Yield our ACLs after each change of one ACL.

    A proposal changes several ACLs at once, so it has fewer such states.
    """
    for each in wanted.added:
        ours.fold_changed(AclsChanged((each,), ()), position=1)
        yield ours
    for each in wanted.removed:
        ours.fold_changed(AclsChanged((), (each,)), position=1)
        yield ours


@pytest.mark.parametrize("open_to_all", [False, True])
@pytest.mark.parametrize("scope", [ALL, Scope(False, Names({"a"}))], ids=["all", "linked"])
def test_no_moment_allows_more_than_the_source_and_the_time_before(
    scope: Scope, open_to_all: bool
) -> None:
    for seed in range(240):
        rng = Random(seed)
        theirs = drawn(rng, rng.randrange(9))
        theirs |= drawn(rng, rng.choice((0, 1, 2)), (OF_LATER_RELEASES,))
        here = table(drawn(rng, rng.choice((0, 0, 3, 6))))
        prunes = rng.random() < 0.5
        most = allowed(table(theirs), open_to_all=open_to_all)
        most |= allowed(here, open_to_all=open_to_all)
        wanted = acl_plan(theirs, here, scope, NOTHING, prunes=prunes)
        for moment in moments(here, wanted):
            assert allowed(moment, open_to_all=open_to_all) <= most, seed


@pytest.mark.parametrize("open_to_all", [False, True])
def test_in_the_end_all_decisions_are_the_sources(open_to_all: bool) -> None:
    for seed in range(200):
        rng = Random(seed)
        theirs = drawn(rng, rng.randrange(12))
        here = table(drawn(rng, rng.choice((0, 5))))
        wanted = acl_plan(theirs, here, ALL, NOTHING, prunes=True)
        for _ in moments(here, wanted):
            pass
        expected = allowed(table(theirs), open_to_all=open_to_all)
        assert allowed(here, open_to_all=open_to_all) == expected, seed
        assert acl_plan(theirs, here, ALL, NOTHING, prunes=True).is_done


def test_in_the_end_decisions_about_the_links_topics_are_the_sources() -> None:
    for seed in range(200):
        rng = Random(seed)
        theirs, here = drawn(rng, 8), table()
        for _ in moments(
            here, acl_plan(theirs, here, Scope(False, Names({"a"})), NOTHING, prunes=False)
        ):
            pass
        mine, source = (allowed(each, open_to_all=True) for each in (here, table(theirs)))
        about = {each for each in _QUESTIONS if each[3:] == (TOPIC, "a")}
        assert mine & about == source & about, seed
