"""Plays the 2,000 mutated batches on a broker and says what differs from the recording of Kafka.

PYTHONPATH=compat-tests .venv/bin/python compat-tests/mutated_batches/run.py [--against tidegate]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trio
from harness.broker import running

from mutated_batches import golden
from mutated_batches.cases import cases
from mutated_batches.comparing import compare
from mutated_batches.permitted import permission
from mutated_batches.playing import SETTINGS, play


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--against", default="tidegate", help="tidegate, kafka or HOST:PORT")
    options = parser.parse_args(arguments)
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
    for name, count in permitted.most_common():
        print(f"permitted {count} times: {name}")
    print(f"{len(others)} of {len(found)} batches have other differences")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
