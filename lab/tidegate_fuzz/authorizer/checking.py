"""python -m tidegate_fuzz.authorizer.checking [--cases N] [--first SEED]

Compares the authorizer with the naive one, 50 questions a case.  Before the questions, about half
of the ACLs are removed and added again, so that removals are tried, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from random import Random
from typing import Final

from tidegate_coordination.security.authorizer import AclIndex, Authorizer

from . import naive
from .drawing import Case, Question, draw

QUESTIONS: Final = 50


def indexed(case: Case, seed: int) -> AclIndex:
    """Return the ACLs of a case, some of which were removed and added again."""
    rng = Random(seed)
    index = AclIndex()
    for each in case.acls:
        index.add(each)
    away = [each for each in case.acls if rng.random() < 0.5]
    for each in away:
        index.remove(each)
    for each in rng.sample(away, len(away)):
        index.add(each)
    return index


def answer(authorizer: Authorizer, asked: Question) -> bool:
    """Return the authorizer's answer."""
    principal, host, operation, resource_type, name = asked
    if name is None:
        return authorizer.may_any(principal, host, operation, resource_type)
    return authorizer.may(principal, host, operation, resource_type, name)


def answers(case: Case, seed: int) -> list[bool]:
    """Return the authorizer's answers to all questions of a case."""
    supers = frozenset(case.super_users)
    index = indexed(case, seed)
    authorizer = Authorizer(index, supers, allows_everyone=case.allows_everyone)
    return [answer(authorizer, each) for each in case.questions]


def differences(seeds: range) -> Iterator[tuple[int, Question]]:
    """Yield each question with another answer than the naive one, and its seed."""
    for seed in seeds:
        case = draw(seed, QUESTIONS)
        for asked, found in zip(case.questions, answers(case, seed), strict=True):
            if found != naive.answer(case, asked):
                yield seed, asked


def main() -> int:
    """Run the command; see the module's head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    found = list(differences(seeds))
    for seed, asked in found[:10]:
        print(f"seed {seed}: {asked}")
    print(f"{options.cases * QUESTIONS} questions, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
