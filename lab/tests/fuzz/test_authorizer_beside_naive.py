"""The authorizer answers as a naive one does.

`python -m tidegate_fuzz.authorizer.checking` asks as many questions as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

import pytest

from tidegate_coordination.security import authorizer as module
from tidegate_coordination.security.acls import Operation
from tidegate_fuzz.authorizer import naive
from tidegate_fuzz.authorizer.checking import QUESTIONS, answers, differences
from tidegate_fuzz.authorizer.drawing import draw

SEEDS = range(600)


def test_thirty_thousand_questions() -> None:
    assert list(differences(SEEDS)) == []


def test_the_questions_are_no_easy_ones() -> None:
    """Of each answer there are many, by name and by type."""
    asked = [
        (each.name is None, naive.answer(case, each))
        for case in (draw(seed, QUESTIONS) for seed in SEEDS)
        for each in case.questions
    ]
    counts = [asked.count((by_type, found)) for by_type in (True, False) for found in (True, False)]
    assert min(counts) > 1_500


def test_a_case_is_always_the_same() -> None:
    assert draw(7, 5) == draw(7, 5)
    assert draw(7, 5) != draw(8, 5)
    assert answers(draw(7, 5), 7) == answers(draw(7, 5), 8)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_ALLOWING", module._SAID),  # nothing is implied
        ("_DENYING", tuple(each << 16 for each in module._ALLOWING)),  # to deny implies, too
        ("_DENYING", tuple(1 << (16 + each) for each in Operation)),  # to deny ALL is forgotten
        ("_SAID", module._ALLOWING),  # implied for any resource
        ("_HARDCODE", "*"),
        ("ANY_NAME", "\0"),
        ("EVERYONE", "User:"),
    ],
)
def test_planted_mistakes_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(module, name, value)
    assert any(differences(SEEDS))


def _joined(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _any_length(patterns: module._Patterns, name: str) -> int:
    """Takes a prefix that is longer than the name for one of the name."""
    found = patterns.prefixes.items()
    return _joined(bits for each, bits in found if name.startswith(each[: len(name)]))


def _whole_names(patterns: module._Patterns, name: str) -> int:
    """Looks at no prefix that is the whole name."""
    found = patterns.prefixes.items()
    return _joined(bits for each, bits in found if name.startswith(each) and each != name)


@pytest.mark.parametrize("mistake", [_any_length, _whole_names])
def test_planted_mistakes_with_prefixes_are_found(
    monkeypatch: pytest.MonkeyPatch, mistake: object
) -> None:
    monkeypatch.setattr(module._Patterns, "of_prefixes", mistake)
    assert any(differences(SEEDS))


def test_a_planted_wildcard_for_every_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka passes over it for names that begin with `*`."""

    def of(patterns: module._Patterns, name: str) -> int:
        literals = patterns.literals
        found = literals.get(name, 0) | literals.get("*", 0)
        return found | patterns.of_prefixes(name)

    monkeypatch.setattr(module._Patterns, "of", of)
    assert any(differences(SEEDS))
