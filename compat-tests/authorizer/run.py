"""Random ACLs and questions to Kafka's StandardAuthorizer and to ours: all answers compared.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/authorizer/run.py [--cases N]

A case is a set of ACLs with fifty questions, drawn from a seed (tidegate_fuzz/authorizer).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
from harness import install
from harness.toolbox import java_command

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


def main() -> int:
    """Run the command; see the module's head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    count = 0
    for first in range(options.first, options.first + options.cases, PART):
        last = min(first + PART, options.first + options.cases)
        for seed, asked in differences(range(first, last)):
            count += 1
            if count <= SHOWN:
                print(f"seed {seed}: {asked}", flush=True)
    print(f"{options.cases} cases, {options.cases * QUESTIONS} questions, {count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
