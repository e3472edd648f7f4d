"""librdkafka's own broker tests, out of the npm package that carries its sources.

A case is a test's name, or NAME/TEXT for those of its subtests that have TEXT in their title or are
of the function TEXT.  Each case runs in its own process, since a failed test leaves threads behind.
Cases mostly wait, so some run side by side.  The quick mode (-Q) is not used, since it leaves most
subtests out.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import install, places
from harness.kafka_folder import kafka_folder
from harness.places import log_of
from harness.probe import offered
from harness.process import run_to_end
from harness.report import Outcome
from harness.security import (
    AUTHORIZER,
    SASL,
    SCRAM_USERS,
    add_scram_users,
    sasl_address,
)

from suites.baseline import passing, score
from suites.excluded import excluded, worth_a_start

# Some tests need two consumers in a group's first round.  Some deny a right to all users.
SETTINGS = {
    "node.id": "1",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "500",
    **AUTHORIZER,
    "super.users": "User:nobody",
}
WITHOUT_AUTO_CREATE = {**SETTINGS, "auto.create.topics.enable": "false"}
WITH_LOGINS = {**SETTINGS, **SASL, "connections.max.reauth.ms": "5000"}
SECONDS = 600
SIDE_BY_SIDE = 4
# These tests measure milliseconds, so they run alone, and again if a busy machine delayed them.
MEASURES_TIME = ("0055", "0127")
TRIES = 3
CONFIG = """\
bootstrap.servers={bootstrap}
broker.address.family=v4
test.topic.random=true
test.timeout.multiplier=3
"""
LOGIN = """\
security.protocol=sasl_plaintext
sasl.mechanism=SCRAM-SHA-512
sasl.username={}
sasl.password={}
""".format(*SCRAM_USERS["SCRAM-SHA-512"])
RESULT = re.compile(r"=== Test (\w+) (PASSED|FAILED) ===")
FAILURE = re.compile(r'### Test "(\w+)')  # a failed test's thread may end without a result
SUBTEST_PASSED = re.compile(r"\[ (.*): PASS \(")


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs jobs against the broker of `env`.

    A job is run by one process.  It is a test's number, or NUMBER/TEXT.
    """

    suite: str
    folder: Path
    options: tuple[str, ...]
    env: dict[str, str]

    def best_results(self, job: str) -> dict[str, bool]:
        """Return `results` of the first try that passed, or of the last try."""
        results: dict[str, bool] = {}
        for _ in range(TRIES):
            results = self.results(job)
            if results and all(results.values()):
                break
        return results

    def results(self, job: str) -> dict[str, bool]:
        """Return by case whether it passed, without cases that were skipped or not reached."""
        number, _, text = job.partition("/")
        log = log_of(f"{self.suite}-{number}" + re.sub(r"\W+", "-", text and f"-{text}"))
        env = {**self.env, "TESTS": number, **({"SUBTESTS": _title(text)} if text else {})}
        command: list[str | Path] = [self.folder / "test-runner", "-p1", "-L", *self.options]
        run_to_end(command, log, seconds=SECONDS, cwd=self.folder, env=env)
        return read_results(log.read_text(errors="replace"), text)


def read_results(output: str, text: str = "") -> dict[str, bool]:
    """Return by case whether it passed.  text: the subtests to run; if none ran, none passed."""
    tests = {name: word == "PASSED" for name, word in RESULT.findall(output)}
    tests |= dict.fromkeys(FAILURE.findall(output), False)
    if not text:
        return tests
    ran = any(_title(text) in passed for passed in SUBTEST_PASSED.findall(output))
    return {f"{name}/{text}": passed and ran for name, passed in tests.items()}


def _title(text: str) -> str:
    """Return the text to look for in titles; `f` must not match subtests of `f_and_more`."""
    return f"{text}:" if text.isidentifier() else text


def check(
    suite: str,
    options: tuple[str, ...],
    bootstrap: str,
    only: re.Pattern[str],
    *,
    is_known: bool = False,
) -> Sequence[Outcome]:
    """Run the cases of the suite's list and score them.

    is_known: the tests log in.
    """
    folder = install.librdkafka_tests()
    config = log_of(suite).with_suffix(".conf")
    config.parent.mkdir(exist_ok=True)
    if is_known:
        add_scram_users(bootstrap)
    servers, login = (sasl_address(bootstrap), LOGIN) if is_known else (bootstrap, "")
    config.write_text(CONFIG.format(bootstrap=servers) + login)
    env = {
        "LD_LIBRARY_PATH": f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}",
        "RDKAFKA_TEST_CONF": str(config),
        "KAFKA_PATH": str(kafka_folder()),
        "BROKERS": bootstrap,
        "TEST_KAFKA_VERSION": places.KAFKA_VERSION,
    }
    runner = _Runner(suite, folder, options, env)
    cases, exclusions, apis = passing(suite, only), excluded(suite), offered(bootstrap)
    jobs = {_job(case): None for case in cases if worth_a_start(case, exclusions, apis)}
    alone = [job for job in jobs if job.startswith(MEASURES_TIME)]
    results = [runner.best_results(job) for job in alone]
    results += _side_by_side(runner.results, [job for job in jobs if job not in alone])
    return score(cases, dict(ChainMap(*results)), exclusions)


def _side_by_side(
    run: Callable[[str], dict[str, bool]], jobs: Sequence[str]
) -> list[dict[str, bool]]:
    pool = ThreadPoolExecutor(SIDE_BY_SIDE)
    try:
        return list(pool.map(run, jobs))
    finally:
        pool.shutdown(cancel_futures=True)


def _job(case: str) -> str:
    """Return 0081/text for 0081_admin/text, since the runner selects tests by number only."""
    test, slash, title = case.partition("/")
    return test[:4] + slash + title


check_default = partial(check, "librdkafka", ())
check_with_logins = partial(check, "librdkafka-sasl", (), is_known=True)
check_without_auto_create = partial(check, "librdkafka-noautocreate", ("-s", "noautocreate"))
