"""franz-go's own tests of its client (pkg/kgo), out of the Go module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness import install
from harness.places import log_of
from harness.process import run_to_end, tail
from harness.report import Outcome
from harness.security import SASL, SCRAM_USERS, add_scram_users, sasl_address

from suites.baseline import EVERYTHING, Exclusions, passing, score

SETTINGS = {
    "node.id": "1",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    **SASL,
}
SECONDS = 900
RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) ", re.MULTILINE)

EXCLUDED: Exclusions = [
    (re.compile(r"^Test848|/848"), "KIP-848 groups are not offered yet"),
    (re.compile(r"^TestShareGroup|ShareSkips"), "share groups (KIP-932) are not offered yet"),
]


def check(bootstrap: str, only: re.Pattern[str]) -> Sequence[Outcome]:
    """Run the tests of the package and score them."""
    folder = install.franz_go_tests()
    log, names = log_of("franz-go"), passing("franz-go", only)
    add_scram_users(bootstrap)
    env = {
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "50000",
        "KGO_TEST_SCRAM": ":".join(SCRAM_USERS["SCRAM-SHA-256"]),
        "KGO_TEST_SCRAM_SEEDS": sasl_address(bootstrap),
    }
    limit = f"-test.timeout={SECONDS}s"
    command: list[str | Path] = [folder / "kgo.test", "-test.count=1", limit, "-test.v"]
    command += chosen(names, only)
    status = run_to_end(command, log, seconds=SECONDS + 30, cwd=folder, env=env)
    output = log.read_text(errors="replace")
    results = {name: word == "PASS" for word, name in RESULT.findall(output) if word != "SKIP"}
    outcomes = score(names, results, EXCLUDED)
    if status is None or "panic:" in output:
        outcomes.append(Outcome("the test process", "failed", f"did not end well\n{tail(log)}"))
    return outcomes


def chosen(names: Sequence[str], only: re.Pattern[str]) -> list[str]:
    """Return the flag of a Go test that runs only these tests, with all of their subtests."""
    if only == EVERYTHING:
        return []
    tests = dict.fromkeys(re.escape(name.partition("/")[0]) for name in names)
    return [f"-test.run=^({'|'.join(tests)})$"]
