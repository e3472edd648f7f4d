"""Plays the 2,000 mutated batches on a broker and says what differs from the recording of Kafka.

PYTHONPATH=compat-tests .venv/bin/python compat-tests/mutated_batches/run.py [--against tidegate]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trio
from harness.broker import running

from mutated_batches import golden
from mutated_batches.cases import cases
from mutated_batches.comparing import compare
from mutated_batches.playing import SETTINGS, play


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--against", default="tidegate", help="tidegate, kafka or HOST:PORT")
    options = parser.parse_args(arguments)
    with running(options.against, SETTINGS) as broker:
        found = trio.run(play, broker.bootstrap, cases())
    differences = list(compare(golden.read(), found))
    for each in differences:
        print(each)
    print(f"{len({each.case.number for each in differences})} of {len(found)} cases differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
