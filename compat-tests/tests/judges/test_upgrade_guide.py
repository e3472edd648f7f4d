"""The drill of an upgrade: the guide's commands, and the judges of what they show."""

from __future__ import annotations

from collections import Counter

import pytest
from histories.watch import Ends, Judged
from upgrade.administrator import PAGE
from upgrade.guide import (
    BEFORE,
    DESCRIBE,
    INSTALL,
    ONE_GATEWAY,
    RAISE,
    START,
    STOP,
    commands,
    filled,
    from_installation,
    raised_to,
    until_start,
)
from upgrade.judging import Levels, early_raise, errors_seen, levels, odd_gateways

from tidegate_coordination.events.metadata_versions import NEWEST

TEXT = """\
# Title

## First

1. Do this, which goes on
   here:

       one URL
       two 2 \\
         --more

## Second

Words.

    three
"""
LISTED = """\
ID  ZONE  ADDRESS                                 VERSION   STATE     GROUPS
1   az-1  PLAINTEXT://a:9092,PEER://a:9645        0.1.0     serving   0
2   az-2  PLAINTEXT://b:9092,PEER://b:9645        0.1.0+ab  draining  3
"""


def test_commands_are_found_by_part() -> None:
    assert commands(TEXT) == {"First": ["one URL", "two 2 --more"], "Second": ["three"]}


def test_only_whole_names_are_replaced_and_each_once() -> None:
    names = {"/opt/t": "/a/2", "/opt/t-next": "/b", "2": "7", "URL": "u"}
    assert filled("/opt/t/bin /opt/t-next 2 v2.2 URL URLS", names) == "/a/2/bin /b 7 v2.2 u URLS"


def test_the_page_has_the_parts_that_the_drill_runs() -> None:
    page = commands(PAGE.read_text(encoding="utf-8"))
    assert set(page) == {BEFORE, ONE_GATEWAY, RAISE}
    part = page[ONE_GATEWAY]
    assert until_start(part)[-2] == STOP
    assert until_start(part)[-1].startswith(INSTALL)
    assert from_installation(part)[0].startswith(INSTALL)
    assert from_installation(part)[1] == START
    assert part[-1].startswith("tidegate gateway list")
    assert sum(each.startswith(DESCRIBE) for each in page[BEFORE]) == 1
    [command] = page[RAISE]
    assert raised_to(command) == NEWEST


@pytest.mark.parametrize(
    ("asked", "before", "after", "refusal", "is_wrong"),
    [
        (9, 7, 7, "gateway 3 cannot read it", False),
        (9, 7, 7, "", True),
        (9, 7, 9, "", True),
        (9, 7, 9, "no answer", True),
        (9, 9, 9, "", False),
    ],
)
def test_an_early_raise_is_wrong_if_it_is_taken_and_would_change_the_level(
    asked: int, before: int, after: int, refusal: str, is_wrong: bool
) -> None:
    assert bool(early_raise(asked, before, after, refusal)) == is_wrong


def test_levels_of_the_feature_are_read() -> None:
    described = (
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
        "FinalizedVersionLevel: 1\tEpoch: 4\n"
        "Feature: tidegate.metadata.version\tSupportedMinVersion: 1\tSupportedMaxVersion: 9\t"
        "FinalizedVersionLevel: 7\tEpoch: 4\n"
    )
    assert levels(described) == Levels(on=7, newest=9)
    with pytest.raises(ValueError, match="is not in"):
        levels(described.splitlines()[0])


@pytest.mark.parametrize(
    ("releases", "odd"),
    [
        ({1: "0.1.0"}, ["gateway 2 is ('0.1.0+ab', 'draining'), not there"]),
        (
            {1: "0.1.0+ab", 2: "0.1.0+ab"},
            [
                "gateway 1 is ('0.1.0', 'serving'), not ('0.1.0+ab', 'serving')",
                "gateway 2 is ('0.1.0+ab', 'draining'), not ('0.1.0+ab', 'serving')",
            ],
        ),
    ],
)
def test_a_gateway_that_is_not_as_expected_is_odd(releases: dict[int, str], odd: list[str]) -> None:
    assert odd_gateways(LISTED, releases) == odd


def test_a_list_as_expected_is_not_odd() -> None:
    listed = LISTED.replace("draining", "serving ")
    assert odd_gateways(listed, {1: "0.1.0", 2: "0.1.0+ab"}) == []
    assert odd_gateways(listed, {1: "0.1.0", 2: "0.1.0+ab", 3: "0.1.0"}) == [
        "gateway 3 is missing, not ('0.1.0', 'serving')"
    ]


def test_errors_of_all_clients_are_counted() -> None:
    ends = {
        "java": Ends(committed=5, aborted=2),
        "go": Ends(unknown=1, errors=Counter({"m1 commit FENCED": 2})),
    }
    assert errors_seen([], Judged(ends={"java": ends["java"]})) == Counter()
    assert errors_seen(["java: poll X", "java: poll X"], Judged(ends=ends)) == Counter(
        {"java: poll X": 2, "go: m1 commit FENCED": 2, "go: the end of a transaction is unknown": 1}
    )
