"""Records the facts of Apache Kafka for every case: compat-tests/expected/mutated_batches.json.

compat-tests/run mutated-batches-record
"""

from __future__ import annotations

import trio
from harness.broker import running
from runner.result import Result
from runner.shared import NoOptions

from mutated_batches import golden
from mutated_batches.cases import cases
from mutated_batches.playing import SETTINGS, play


def main(options: NoOptions) -> Result:
    """Play all cases, and write the file."""
    with running("kafka", SETTINGS) as broker:
        golden.write(trio.run(play, broker.bootstrap, cases()))
    return Result(is_good=True)
