"""Whole runs: they find nothing, and the same seed gives the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256

from tidegate_simulation.faults import KINDS
from tidegate_simulation.run import Report, run_seeds, simulate

_PRINT_TRACE = """
import sys
from hashlib import sha256
from tidegate_simulation.run import simulate
trace = simulate(int(sys.argv[1]), int(sys.argv[2])).trace
print(sha256("\\n".join(trace).encode()).hexdigest())
"""


def _digest(report: Report) -> str:
    return sha256("\n".join(report.trace).encode()).hexdigest()


def test_twenty_seeds_find_nothing_and_every_kind_of_fault_lands() -> None:
    struck: set[str] = set()
    for report in run_seeds(range(1, 21), 150):
        assert not report.violations, report.replay
        assert report.entries > 10
        struck.update(kind for kind, count in report.landed.counts.items() if count)
    assert not set(KINDS) - struck


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = simulate(4, 100), simulate(4, 100)
    assert first.trace == second.trace
    assert first == second
    assert simulate(5, 100).trace != first.trace


def test_the_same_seed_gives_the_same_run_under_another_hash_seed() -> None:
    for seed in (4, 18):
        output = subprocess.run(
            [sys.executable, "-c", _PRINT_TRACE, str(seed), "100"],
            env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert output.strip() == _digest(simulate(seed, 100))
