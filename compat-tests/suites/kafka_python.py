"""kafka-python's own integration tests, out of its source distribution."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import install, places
from harness.places import log_of
from harness.process import run_to_end, tail
from harness.report import Outcome
from harness.security import AUTHORIZER

from suites.baseline import EVERYTHING, passing, score

# kafka-python's tests assign replicas to node 0 by hand, and ask for sessions of 3 s.
SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    **AUTHORIZER,
}
SECONDS = 900
RESULT = re.compile(r"^(PASSED|FAILED|ERROR) test/integration/(\S+)", re.MULTILINE)


def check(bootstrap: str, only: re.Pattern[str]) -> Sequence[Outcome]:
    """Run the integration tests and score them."""
    folder = install.kafka_python_suite()
    log, names = log_of("kafka-python"), passing("kafka-python", only)
    env = {
        "KAFKA_ROOT": str(folder / "kroot"),
        "KAFKA_VERSION": places.KAFKA_VERSION,
        "KAFKA_URI": f"kafka://{bootstrap}",
    }
    return run_tests(folder, log, env, names, _paths(names, only))


def run_tests(
    folder: Path, log: Path, env: Mapping[str, str], names: Sequence[str], paths: Sequence[str]
) -> Sequence[Outcome]:
    """Run the tests in these places, and score those with these names."""
    # The timeout method of the project would end the whole run at the first late test.
    command: list[str | Path] = [folder / "venv/bin/python", "-m", "pytest", "-q", "-rA", *paths]
    command += ["--timeout=60", "--timeout-method=signal"]
    status = run_to_end(command, log, seconds=SECONDS, cwd=folder, env=env)
    results = {
        name: word == "PASSED" for word, name in RESULT.findall(log.read_text(errors="replace"))
    }
    outcomes = score(names, results, ())
    if status not in (0, 1):
        outcomes.append(Outcome("the test process", "failed", f"status {status}\n{tail(log)}"))
    return outcomes


def _paths(names: Sequence[str], only: re.Pattern[str]) -> list[str]:
    """Return the paths of the tests; without --only also of tests outside of the baseline."""
    if only == EVERYTHING:
        return ["test/integration"]
    return [f"test/integration/{name}" for name in names]
