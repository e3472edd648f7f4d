"""Which quota holds for a client, and the checks of requests that set or describe quotas."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import pytest

from tidegate_coordination.security.quota_checks import (
    MatchType,
    QuotaRefused,
    check_value,
    entity_of,
    filter_of,
    is_possible,
)
from tidegate_coordination.security.quotas import (
    DEFAULT,
    Bucket,
    Limit,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
    Quotas,
    limit_of,
    normal_address,
)

KEY = QuotaKey.PRODUCE
U, C, D = "u", "c", DEFAULT
# The most specific entity first, as KIP-55 and KIP-546 list them, with the clients that share it.
LEVELS = (
    (QuotaEntity(U, C), Bucket(U, C)),
    (QuotaEntity(U, D), Bucket(U, C)),
    (QuotaEntity(U), Bucket(U, "")),
    (QuotaEntity(D, C), Bucket(U, C)),
    (QuotaEntity(D, D), Bucket(U, C)),
    (QuotaEntity(D), Bucket(U, "")),
    (QuotaEntity(client_id=C), Bucket("", C)),
    (QuotaEntity(client_id=D), Bucket("", C)),
)


def test_the_most_specific_of_eight_levels_holds() -> None:
    for present in product((False, True), repeat=len(LEVELS)):
        quotas: Quotas = {
            entity: {KEY: float(at)} for at, (entity, _) in enumerate(LEVELS) if present[at]
        }
        at = present.index(True) if any(present) else None
        expected = None if at is None else Limit(LEVELS[at][1], float(at))
        assert limit_of(quotas, KEY, U, C) == expected


def test_quotas_of_others_and_of_other_keys_do_not_hold() -> None:
    quotas: Quotas = {
        QuotaEntity("v", C): {KEY: 1.0},
        QuotaEntity(U, "d"): {KEY: 1.0},
        QuotaEntity("v"): {KEY: 1.0},
        QuotaEntity(client_id="d"): {KEY: 1.0},
        QuotaEntity(U): {QuotaKey.FETCH: 1.0},
    }
    assert limit_of(quotas, KEY, U, C) is None
    assert limit_of(quotas, QuotaKey.FETCH, U, C) == Limit(Bucket(U, ""), 1.0)


def test_a_client_without_a_client_id_has_only_quotas_of_users() -> None:
    for at, (entity, _) in enumerate(LEVELS):
        found = limit_of({entity: {KEY: 1.0}}, KEY, U, "")
        assert found == (Limit(Bucket(U, ""), 1.0) if at in (2, 5) else None)


@pytest.mark.parametrize(
    ("named", "entity"),
    [
        ([("user", "a")], QuotaEntity("a")),
        ([("user", None)], QuotaEntity(DEFAULT)),
        ([("client-id", "b"), ("user", None)], QuotaEntity(DEFAULT, "b")),
        ([("ip", "::1")], QuotaEntity(ip="::1")),
        ([("ip", None)], QuotaEntity(ip=DEFAULT)),
        ([("user", "a"), ("user", "b")], QuotaEntity("b")),
    ],
)
def test_entities(named: list[tuple[str, str | None]], entity: QuotaEntity) -> None:
    assert entity_of(named) == entity


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "a")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("client-id", "")], "Empty client-id not supported"),
        (
            [("ip", "1.2.3.4"), ("user", "a")],
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId",
        ),
        ([("ip", "1.2.3")], "1.2.3 is not a valid IP or resolvable host."),
    ],
)
def test_wrong_entities(named: list[tuple[str, str | None]], text: str) -> None:
    with pytest.raises(QuotaRefused) as refused:
        entity_of(named)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (QuotaEntity("a"), "producer_byte_rate", 1.0, None),
        (QuotaEntity("a"), "request_percentage", 0.01, None),
        (QuotaEntity("a"), "controller_mutation_rate", 0.5, None),
        (QuotaEntity("a"), "request_percentage", inf, None),
        (QuotaEntity(ip="1.2.3.4"), "connection_creation_rate", 2.0**31 - 1, None),
        (QuotaEntity("a"), "rate", 1.0, "Invalid configuration key rate"),
        (
            QuotaEntity("a"),
            "connection_creation_rate",
            1.0,
            "Invalid configuration key connection_creation_rate",
        ),
        (
            QuotaEntity(ip="1.2.3.4"),
            "producer_byte_rate",
            1.0,
            "Invalid configuration key producer_byte_rate",
        ),
        (
            QuotaEntity("a"),
            "producer_byte_rate",
            0.0,
            "Quota producer_byte_rate must be greater than 0",
        ),
        (
            QuotaEntity("a"),
            "consumer_byte_rate",
            nan,
            "Quota consumer_byte_rate must be greater than 0",
        ),
        (
            QuotaEntity("a"),
            "producer_byte_rate",
            1.5,
            "producer_byte_rate cannot be a fractional value.",
        ),
        (
            QuotaEntity("a"),
            "producer_byte_rate",
            1e19,
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            QuotaEntity(ip="1.2.3.4"),
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_values(entity: QuotaEntity, key: str, value: float, text: str | None) -> None:
    assert is_possible(QuotaChange(entity, key, value)) == (text is None)
    if text is None:
        check_value(entity, key, value)
        return
    with pytest.raises(QuotaRefused) as refused:
        check_value(entity, key, value)
    assert str(refused.value) == text


ENTITIES = [
    QuotaEntity("a"),
    QuotaEntity(DEFAULT),
    QuotaEntity("a", "b"),
    QuotaEntity("a", DEFAULT),
    QuotaEntity(client_id="b"),
    QuotaEntity(ip="1.2.3.4"),
    QuotaEntity(ip=DEFAULT),
]


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4, 5, 6]),
        ([], True, []),
        ([("user", MatchType.EXACT, "a")], False, [0, 2, 3]),
        ([("user", MatchType.EXACT, "a")], True, [0]),
        ([("user", MatchType.EXACT, "")], False, []),
        ([("user", MatchType.DEFAULT, None)], False, [1]),
        ([("user", MatchType.SPECIFIED, None)], True, [0, 1]),
        ([("user", MatchType.SPECIFIED, None)], False, [0, 1, 2, 3]),
        (
            [("user", MatchType.SPECIFIED, None), ("client-id", MatchType.SPECIFIED, None)],
            True,
            [2, 3],
        ),
        ([("client-id", MatchType.DEFAULT, None)], False, [3]),
        ([("ip", MatchType.SPECIFIED, None)], True, [5, 6]),
    ],
)
def test_filters(
    components: list[tuple[str, int, str | None]], is_strict: bool, found: list[int]
) -> None:
    wanted = filter_of(components, is_strict=is_strict)
    assert [at for at, each in enumerate(ENTITIES) if wanted.matches(each)] == found


@pytest.mark.parametrize(
    ("components", "text"),
    [
        ([("", 0, "a")], "Invalid empty entity type."),
        (
            [("user", 0, "a"), ("user", 2, None)],
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", 0, "a")], "Unsupported entity type group"),
        ([("user", 0, None)], "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        (
            [("user", 1, "a")],
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", 2, "a")],
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 3, None)], "Unknown match type 3"),
        (
            [("user", 2, None), ("ip", 2, None)],
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        ),
    ],
)
def test_wrong_filters(components: list[tuple[str, int, str | None]], text: str) -> None:
    with pytest.raises(QuotaRefused) as refused:
        filter_of(components, is_strict=False)
    assert str(refused.value) == text
    assert refused.value.is_unknown_type == text.startswith("Unsupported")


def test_addresses_are_compared_in_one_form() -> None:
    assert normal_address("::ffff:10.0.0.1") == normal_address("10.0.0.1") == "10.0.0.1"
    assert normal_address("0:0::1") == "::1"
    assert normal_address("host") is None
