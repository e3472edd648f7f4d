"""Random ACLs and questions to Kafka's StandardAuthorizer and to ours: all answers compared.

    compat-tests/run authorizer [--cases N]

A case is a set of ACLs with fifty questions, drawn from a seed (tidegate_fuzz/authorizer).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from harness import install
from harness.toolbox import java_command
from runner.options import option
from runner.result import Result, say

from tidegate_fuzz.authorizer.checking import QUESTIONS, answers
from tidegate_fuzz.authorizer.drawing import Case, Question, draw

SHOWN: Final = 10
PART: Final = 500
"""Cases that one JVM gets at a time."""


def of_kafka(cases: Sequence[Case], *, seconds: float = 120) -> list[list[bool]]:
    """Return what Kafka's authorizer answers, case by case."""
    command = [*java_command(install.java_authorizations()), "Authorizations"]
    lines = "\n".join(_line(each) for each in cases)
    done = subprocess.run(
        command, input=lines.encode(), capture_output=True, timeout=seconds, check=True
    )
    return [[each == "1" for each in line] for line in done.stdout.decode().splitlines()]


def _line(case: Case) -> str:
    return json.dumps(
        {
            "supers": ";".join(case.super_users),
            "everyone": str(case.allows_everyone).lower(),
            "acls": [msgspec.structs.astuple(each) for each in case.acls],
            "questions": case.questions,
        }
    )


def differences(seeds: range) -> Iterator[tuple[int, Question]]:
    """Yield each question with another answer than Kafka's, and its seed."""
    cases = [draw(seed, QUESTIONS) for seed in seeds]
    theirs = of_kafka(cases)
    assert len(theirs) == len(cases)
    for seed, case, expected in zip(seeds, cases, theirs, strict=True):
        for asked, right, found in zip(case.questions, expected, answers(case, seed), strict=True):
            if right != found:
                yield seed, asked


@dataclass(frozen=True)
class Options:
    """The options."""

    cases: int = 10_000
    first: int = option(0, "the seed of the first case")


def main(options: Options) -> Result:
    """Run it."""
    count = 0
    for first in range(options.first, options.first + options.cases, PART):
        last = min(first + PART, options.first + options.cases)
        for seed, asked in differences(range(first, last)):
            count += 1
            if count <= SHOWN:
                say(f"seed {seed}: {asked}")
    total = options.cases * QUESTIONS
    return Result(not count, f"{options.cases} cases, {total} questions, {count} differences")
