"""Plays the 2,000 mutated batches on a broker and says what differs from the recording of Kafka.

compat-tests/run mutated-batches [--against tidegate]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import trio
from harness.broker import running
from runner.options import option
from runner.result import Result

from mutated_batches import golden
from mutated_batches.cases import cases
from mutated_batches.comparing import compare
from mutated_batches.permitted import permission
from mutated_batches.playing import SETTINGS, play


@dataclass(frozen=True)
class Options:
    """The options."""

    against: str = option("tidegate", "tidegate, kafka or HOST:PORT")


def main(options: Options) -> Result:
    """Run it."""
    with running(options.against, SETTINGS) as broker:
        found = trio.run(play, broker.bootstrap, cases())
    permitted: Counter[str] = Counter()
    others: set[int] = set()
    for each in compare(golden.read(), found):
        allowed = permission(each)
        if allowed is None:
            print(each)
            others.add(each.case.number)
        else:
            permitted[allowed.name] += 1
    lines = [f"permitted {count} times: {name}" for name, count in permitted.most_common()]
    total = f"{len(others)} of {len(found)} batches have other differences"
    return Result(not others, "\n".join([*lines, total]))
