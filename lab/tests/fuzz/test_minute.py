"""A minute of fuzzing: each target in a process of its own, always with the same inputs.

A finding's input is printed as hex; it becomes a test of its own (test_fuzz_found_*.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tidegate_fuzz.campaigns import TARGETS

# By target: the executions, which take three to eight seconds on an idle core, and the number of
# branches that they must reach at least.
EXECUTIONS = {
    "codec": (110_000, 5500),
    "plain-produce": (50_000, 33),
    "headers": (40_000, 35),
    "consumer-protocol": (40_000, 100),
    "batches": (15_000, 140),
    "records": (20_000, 38),
    "compression": (8_000, 36),
    "wal": (50_000, 34),
    "runs": (50_000, 19),
    "segments": (100_000, 60),
    "entries": (60_000, 18),
    "fold": (8_000, 600),
    "snapshots": (40_000, 18),
    "logins": (15_000, 90),
    "tokens": (15_000, 30),
    "pushed-metrics": (60_000, 85),
    "groups": (5_000, 215),
    "connection": (4_000, 1650),
    "transactions": (1_200, 1000),
}
DEADLINE_SECONDS = 600.0


def fuzz(target: str, executions: int, seed: int = 1) -> dict[str, Any]:
    """Run a campaign in a process of its own, as the command line does."""
    command = [sys.executable, "-m", "tidegate_fuzz", target, "--json"]
    done = subprocess.run(
        [*command, "--executions", str(executions), "--seed", str(seed)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.stdout, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_all_targets_are_run() -> None:
    assert EXECUTIONS.keys() == TARGETS.keys()


@pytest.mark.parametrize("target", EXECUTIONS)
def test_a_target_raises_no_exception(target: str) -> None:
    executions, branches = EXECUTIONS[target]
    facts = fuzz(target, executions)
    for finding in facts["findings"]:
        print(finding["signature"], finding["input"], finding["text"], sep="\n")
    assert [each["signature"] for each in facts["findings"]] == []
    assert facts["executions"] == executions
    assert facts["branches_reached"] >= branches


@pytest.mark.parametrize(
    ("target", "executions"), [("wal", 3000), ("connection", 60), ("transactions", 60)]
)
def test_a_seed_repeats(target: str, executions: int) -> None:
    one, other = (fuzz(target, executions, seed=7) for _ in range(2))
    what = ("executions", "branches_reached", "corpus", "findings")
    assert {name: one[name] for name in what} == {name: other[name] for name in what}
