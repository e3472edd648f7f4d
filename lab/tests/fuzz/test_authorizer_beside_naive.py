"""The authorizer answers as a naive one does.

`python -m tidegate_fuzz.authorizer.checking` asks any number of questions.
"""

from __future__ import annotations

import pytest

from tidegate_coordination.security import authorizer as module
from tidegate_coordination.security.acls import Acl, Operation
from tidegate_fuzz.authorizer import naive
from tidegate_fuzz.authorizer.checking import QUESTIONS, answers, differences
from tidegate_fuzz.authorizer.drawing import draw

SEEDS = range(600)


def test_thirty_thousand_questions() -> None:
    assert list(differences(SEEDS)) == []


def test_the_questions_are_no_easy_ones() -> None:
    """Many questions are allowed and many denied, by name and by type."""
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


def _any_length(patterns: module._Patterns, name: str) -> list[str]:
    """Return also prefixes that are longer than the name, and begin with it."""
    return [each for each in patterns.prefixes if name.startswith(each[: len(name)])]


def _whole_names(patterns: module._Patterns, name: str) -> list[str]:
    """Omit the prefix that equals the whole name."""
    return [each for each in patterns.prefixes if name.startswith(each) and each != name]


@pytest.mark.parametrize("mistake", [_any_length, _whole_names])
def test_planted_mistakes_with_prefixes_are_found(
    monkeypatch: pytest.MonkeyPatch, mistake: object
) -> None:
    monkeypatch.setattr(module._Patterns, "prefixes_of", mistake)
    assert any(differences(SEEDS))


def test_a_planted_wildcard_for_every_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka does not apply the wildcard to names that begin with `*`."""

    def of_literals(patterns: module._Patterns, name: str) -> int:
        return patterns.literals.get(name, 0) | patterns.literals.get("*", 0)

    monkeypatch.setattr(module._Patterns, "of_literals", of_literals)
    assert any(differences(SEEDS))


def test_a_planted_prefix_that_stays_after_its_acl_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bits of a removed ACL are not taken away."""
    change = module._Patterns.change

    def only_adds(patterns: module._Patterns, acl: Acl, by: int) -> bool:
        return change(patterns, acl, by) if by > 0 else True

    monkeypatch.setattr(module._Patterns, "change", only_adds)
    assert any(differences(SEEDS))
