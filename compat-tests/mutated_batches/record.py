"""Records what Apache Kafka makes of every case: compat-tests/expected/mutated_batches.json.

PYTHONPATH=compat-tests .venv/bin/python compat-tests/mutated_batches/record.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trio
from harness.broker import running

from mutated_batches import golden
from mutated_batches.cases import cases
from mutated_batches.playing import SETTINGS, play


def main() -> None:
    """Play all cases, and write the file."""
    with running("kafka", SETTINGS) as broker:
        golden.write(trio.run(play, broker.bootstrap, cases()))


if __name__ == "__main__":
    main()
