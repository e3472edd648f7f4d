"""Histories of groups: owners of keys, permitted commits, and their outcomes."""

from __future__ import annotations

import pytest

from tests.worlds.checker_lines import (
    EXPIRED,
    GONE,
    Line,
    commit,
    fetched,
    forget,
    heartbeat,
    history,
    joined,
    left,
    unaware,
)
from tidegate_simulation.checks.checker import check

BAD: dict[str, tuple[str, list[Line]]] = {
    "two members own a key": ("two owners", [joined("a", 1, [0]), joined("b", 1, [0])]),
    "two static members own a key": (
        "two owners",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "j")],
    ),
    "a generation falls after another group was deleted": (
        "generation fell",
        [
            joined("a", 2, []),
            ("note", "watch", "ok", "gone", {"group": "h"}),
            joined("b", 1, []),
        ],
    ),
    "a generation falls in a group's second life": (
        "generation fell",
        [GONE, joined("a", 2, []), joined("b", 1, [])],
    ),
    "two members own a key in a group's second life": (
        "two owners",
        [GONE, joined("a", 1, [0]), joined("b", 1, [0])],
    ),
    "generation falls": ("generation fell", [joined("a", 2, []), joined("b", 1, [])]),
    "an old generation commits": (
        "zombie commit",
        [joined("a", 1, [0]), joined("b", 2, [0]), commit(5, "a", 1)],
    ),
    "a replaced static member commits": (
        "static member not fenced",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "i"), commit(5, "a", 1)],
    ),
    "a replaced static member is heard": (
        "static member not fenced",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "i"), heartbeat("a", 1)],
    ),
    "put out before its time": (
        "expired early",
        [joined("a", 1, [0]), (9.0,), heartbeat("a", 1, "UNKNOWN_MEMBER_ID")],
    ),
    "put out soon after a heartbeat": (
        "expired early",
        [
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out at a commit soon after a heartbeat": (
        "expired early",
        [
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1),
            (3.0,),
            commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out soon after it was heard, and another group's gateway was unaware": (
        "expired early",
        [
            unaware("unaware", "h"),
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out while a gateway is unaware, and none heard of it since": (
        "expired early",
        [joined("a", 1, [0]), (2.0,), unaware(), heartbeat("a", 1, "UNKNOWN_MEMBER_ID")],
    ),
    "put out soon after a heartbeat, when a gateway had been unaware": (
        "expired early",
        [
            joined("a", 1, [0]),
            unaware(),
            heartbeat("a", 1),
            unaware("aware"),
            (60.0,),
            heartbeat("a", 1),
            (1.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out after a gateway was unaware": (
        "expired early",
        [
            unaware(),
            unaware("aware"),
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out soon after it was heard, and long before a gateway was unaware": (
        "expired early",
        [
            joined("a", 1, [0]),
            (7.0,),
            unaware(),
            (2.0,),
            commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
        ],
    ),
    "unknown when it joins again": (
        "expired early",
        [
            joined("a", 1, [0]),
            (3.0,),
            (
                "m",
                "joined",
                {"group": "g"},
                ("info", {"error": "UNKNOWN_MEMBER_ID", "member": "a"}),
            ),
        ],
    ),
    "another key's commit expires": (
        "vanished commit",
        [
            commit(5),
            ("note", "watch", "ok", "expired", {"group": "g", "keys": [1, None]}),
            fetched(None),
        ],
    ),
    "a commit after one that expired vanishes": (
        "vanished commit",
        [commit(5), EXPIRED, commit(6), fetched(None)],
    ),
    "what expired comes back": ("stale commit", [commit(5), EXPIRED, fetched(5)]),
    "what a deleted group committed comes back": ("stale commit", [commit(5), GONE, fetched(5)]),
    "a commit survives its group": ("stale commit", [commit(5), forget(), fetched(5)]),
    "a commit vanishes though nothing was deleted": (
        "vanished commit",
        [commit(5), forget("fail"), fetched(None)],
    ),
    "a commit after the deletion vanishes": (
        "vanished commit",
        [commit(5), forget(), commit(6), fetched(None)],
    ),
}

GOOD: dict[str, list[Line]] = {
    "a deleted group begins again": [
        joined("a", 3, [0]),
        GONE,
        joined("b", 1, [0]),
        joined("c", 2, [0]),
        joined("d", 3, [0]),
        commit(5, "d", 3),
    ],
    "a commit that expired": [commit(5), EXPIRED, fetched(None), commit(6), fetched(6)],
    "a join that began before its group was deleted": [
        ("m", "joined", {"group": "g"}),
        GONE,
        (
            "m",
            "joined",
            "ok",
            {"generation": 3, "member": "a", "keys": [0], "instance": None, "session_ms": 10_000},
        ),
        joined("b", 1, [0], process="n"),
    ],
    "put out soon after an unaware gateway heard of it": [
        joined("a", 1, [0]),
        (9.0,),
        unaware(),
        heartbeat("a", 1),
        (9.0,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out soon after a gateway heard of it that was seen to be unaware then": [
        joined("a", 1, [0]),
        (9.0,),
        heartbeat("a", 1),
        (0.3,),
        unaware(),
        unaware("aware"),
        (9.0,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out by a rebalance of which commits do not tell": [
        joined("a", 1, [0]),
        (9.0,),
        commit(5, "a", 1),
        (3.0,),
        commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
    ],
    "a static member returns": [
        joined("a", 1, [0], "i"),
        commit(5, "a", 1),
        joined("b", 1, [0], "i"),
        heartbeat("a", 1, "FENCED_INSTANCE_ID"),
        commit(6, "b", 1),
        fetched(6),
    ],
    "put out in time": [
        joined("a", 1, [0]),
        (10.5,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out because it left": [
        joined("a", 1, [0]),
        left("a"),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "a group deleted and begun again": [commit(5), forget(), fetched(None), commit(1), fetched(1)],
    "a deletion of unknown outcome": [commit(5), forget("info"), fetched(5), fetched(None)],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_history_of_a_group_shows_its_fault_and_no_other(name: str) -> None:
    expected, lines = BAD[name]
    assert sorted({each.kind for each in check(history(*lines))}) == [expected]


@pytest.mark.parametrize("name", GOOD)
def test_good_history_of_a_group_shows_nothing(name: str) -> None:
    assert check(history(*GOOD[name])) == []
