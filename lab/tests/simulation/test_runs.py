"""Whole runs: they find nothing, and the same seed gives the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable

from tidegate_simulation.plans.faults import KINDS
from tidegate_simulation.run import plan_of, run_seeds, simulate

# A run is prolonged until each fault that it promises has landed.
_OPERATIONS = 40
_REPEATED = 6
_PRINT_TRACES = """
import json, sys
from tidegate_runtime.collector import calm_collector
from tidegate_simulation.run import simulate
calm_collector()
for seed in sys.argv[2:]:
    print(json.dumps(simulate(int(seed), int(sys.argv[1])).trace))
"""


def _covering(seeds: Iterable[int]) -> list[int]:
    """Return a few seeds that together draw every kind of fault of the given seeds."""
    drawn = {seed: frozenset(plan_of(seed).kinds) for seed in seeds}
    chosen: list[int] = []
    left = frozenset[str]().union(*drawn.values())
    while left:
        best = max(drawn, key=lambda seed: (len(drawn[seed] & left), -seed))
        chosen.append(best)
        left -= drawn[best]
    return chosen


def _traces_elsewhere(seeds: Iterable[int], operations: int) -> list[list[str]]:
    """Run seeds in another process, with another hash seed."""
    output = subprocess.run(
        [sys.executable, "-c", _PRINT_TRACES, str(operations), *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return [json.loads(line) for line in output.splitlines()]


def test_seeds_find_nothing() -> None:
    for report in run_seeds(range(1, 4), 150):
        assert not report.violations, report.replay
        assert report.entries > 10
        assert report.operations_done >= 150


def test_every_kind_of_fault_lands_and_runs_are_the_same_under_another_hash_seed() -> None:
    """Only the first seeds run twice: they draw most kinds, and the others add only rare ones."""
    struck: set[str] = set()
    seeds = _covering(range(1, 500))
    repeated = seeds[:_REPEATED]
    elsewhere = dict(zip(repeated, _traces_elsewhere(repeated, _OPERATIONS), strict=True))
    for seed in seeds:
        report = simulate(seed, _OPERATIONS)
        assert not report.violations, report.replay
        assert not report.landed.missing
        struck.update(report.landed.counts)
        if seed in elsewhere:
            assert list(report.trace) == elsewhere[seed], f"seed {seed}"
    assert not set(KINDS) - struck


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = simulate(4, 100), simulate(4, 100)
    assert first == second
    assert simulate(5, 100).trace != first.trace


def test_a_client_that_connects_to_a_dying_gateway_is_refused() -> None:
    """In this seed the gateway's tasks have ended, but its life has not, when a client connects."""
    assert simulate(756, 500).violations == ()


def test_a_request_that_the_network_held_may_create_a_topic_late() -> None:
    """In this seed the request arrives after its topic was created and deleted."""
    assert simulate(1115, 500).violations == ()


def test_a_topic_that_grows_has_other_leaders() -> None:
    """In this seed a topic grows between a Metadata answer and the redirection of a consumer."""
    assert simulate(1143, 500, zones=3).violations == ()
