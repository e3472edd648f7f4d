"""Which ACLs a filter matches, and that the table finds each of them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tidegate_coordination.events.security import AclsChanged
from tidegate_coordination.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    ResourceType,
    known,
)
from tidegate_coordination.state.security.acls import AclTable

LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1


def acl(name: str, pattern: int = LITERAL) -> Acl:
    return Acl(2, pattern, name, "User:a", "*", 3, 3)


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, ANY, {"orders", "*", "ord", "orders+", "x"}),
        (None, MATCH, {"orders", "*", "ord", "orders+", "x"}),
        (None, PREFIXED, {"ord", "orders+"}),
        ("orders", ANY, {"orders"}),
        ("orders", LITERAL, {"orders"}),
        ("orders", PREFIXED, set()),
        ("ord", PREFIXED, {"ord"}),
        ("orders", MATCH, {"orders", "*", "ord"}),
        ("orders+1", MATCH, {"*", "ord", "orders+"}),
        ("*", LITERAL, {"*"}),
        ("*", MATCH, {"*"}),
    ],
)
def test_patterns(name: str | None, pattern: int, found: set[str]) -> None:
    rows = [acl("orders"), acl("*"), acl("ord", PREFIXED), acl("orders+", PREFIXED), acl("x")]
    wanted = AclFilter(name=name, pattern_type=pattern)
    assert {each.name for each in rows if wanted.matches(each)} == found


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=2), True),
        (AclFilter(resource_type=3), False),
        (AclFilter(principal="User:a"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=3), True),
        (AclFilter(operation=2), False),
        (AclFilter(operation=0), False),
        (AclFilter(permission=3), True),
        (AclFilter(permission=2), False),
        (AclFilter(2, LITERAL, "orders", "User:a", "*", 3, 3), True),
    ],
)
def test_other_fields(wanted: AclFilter, is_found: bool) -> None:
    assert wanted.matches(acl("orders")) is is_found


def test_the_table_finds_what_filters_match() -> None:
    rng, table = Random(5), AclTable()
    names = ["".join(rng.choices("ab*", k=rng.randint(1, 4))) for _ in range(40)]
    rows = {acl(name, pattern) for name in names for pattern in (LITERAL, PREFIXED)}
    table.fold_changed(AclsChanged(tuple(rows), ()), 1)
    gone = set(rng.sample(sorted(rows), 30))
    table.fold_changed(AclsChanged((), tuple(gone)), 2)
    left = rows - gone
    for name, pattern in product([None, *names, "aaaaaaa"], (ANY, MATCH, LITERAL, PREFIXED)):
        wanted = AclFilter(pattern_type=pattern, name=name)
        found = table.matching(wanted)
        assert set(found) == {each for each in left if wanted.matches(each)}
        assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "row",
    [
        Acl(0, 3, "n", "User:a", "*", 3, 3),
        Acl(1, 3, "n", "User:a", "*", 3, 3),
        Acl(8, 3, "n", "User:a", "*", 3, 3),
        Acl(2, 2, "n", "User:a", "*", 3, 3),
        Acl(2, 5, "n", "User:a", "*", 3, 3),
        Acl(2, 3, "", "User:a", "*", 3, 3),
        Acl(2, 3, "n", "a", "*", 3, 3),
        Acl(2, 3, "n", "User:a", "*", 1, 3),
        Acl(2, 3, "n", "User:a", "*", 16, 3),
        Acl(2, 3, "n", "User:a", "*", 3, 1),
        Acl(2, 3, "n", "User:a", "*", 3, 4),
    ],
)
def test_acls_that_cannot_be(row: Acl) -> None:
    assert not row.is_possible
    assert Acl(7, 4, "n", ":", "not a host", 12, 2).is_possible


def test_numbers_that_kafka_does_not_have_are_unknown() -> None:
    assert known(ResourceType, 7) is ResourceType.USER
    assert known(ResourceType, 8) is ResourceType.UNKNOWN
    assert known(Operation, -1) is Operation.UNKNOWN
    assert known(PatternType, 2) is PatternType.MATCH
