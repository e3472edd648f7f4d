"""run NAME [--against tidegate|kafka|ADDRESS] [--log sqlite|postgres] [--only REGEX] [--json]: see
README.md."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Sequence

from harness import (
    clients,
    go_suite,
    kafka_go_suite,
    librdkafka_suite,
    python_logins_suite,
    python_suite,
)
from harness.baseline import EVERYTHING, passing
from harness.broker import running
from harness.install import MissingTool
from harness.java_tools import suite as java_tools
from harness.metadata_log import KINDS, metadata_log
from harness.process import StartFailed
from harness.report import Outcome, Report
from harness.suite import ScoredSuite, Suite

SCORED = {
    "franz-go": ScoredSuite(go_suite.SETTINGS, go_suite.check),
    "kafka-python": ScoredSuite(python_suite.SETTINGS, python_suite.check),
    "kafka-python-logins": ScoredSuite(python_logins_suite.SETTINGS, python_logins_suite.check),
    "kafka-go": ScoredSuite(kafka_go_suite.SETTINGS, kafka_go_suite.check),
    "librdkafka": ScoredSuite(librdkafka_suite.SETTINGS, librdkafka_suite.check_default),
    "librdkafka-noautocreate": ScoredSuite(
        librdkafka_suite.WITHOUT_AUTO_CREATE, librdkafka_suite.check_without_auto_create
    ),
    "librdkafka-sasl": ScoredSuite(
        librdkafka_suite.WITH_LOGINS, librdkafka_suite.check_with_logins
    ),
}
CLIENTS = {name: Suite(clients.SETTINGS, client) for name, client in clients.CLIENTS.items()}
NAMES = ["java-tools", *SCORED, *CLIENTS]


def main() -> int:
    """Run what the command line names; 1 if something failed that is not excluded."""
    options = _options()
    signal.signal(signal.SIGTERM, _leave)  # so that the brokers are stopped on the way out
    clients.options.records = options.records
    python_logins_suite.options.against = options.against
    names = NAMES if options.name == "all" else [options.name]
    failed = [_run(name, options).failed for name in names]
    return 1 if any(failed) else 0


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compat-tests/run", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--against", default="tidegate", help="tidegate, kafka or HOST:PORT")
    parser.add_argument("--log", choices=KINDS, default="sqlite", help="the gateway's metadata log")
    parser.add_argument(
        "--only",
        type=re.compile,
        default=EVERYTHING,
        metavar="REGEX",
        help=f"only tests whose names match; of {', '.join(SCORED)}",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a suite")
    parser.add_argument("--records", type=int, default=100_000, help="of the client round trips")
    parser.add_argument("--record", action="store_true", help="java-tools: write the record anew")
    options = parser.parse_args()
    if options.record and (options.name, options.against) != ("java-tools", "kafka"):
        parser.error("--record goes with java-tools --against kafka only")
    if options.log != "sqlite" and options.against != "tidegate":
        parser.error("--log goes with a gateway of this tree only")
    if options.only != EVERYTHING and options.name not in SCORED:
        parser.error(f"--only goes with {', '.join(SCORED)}")
    if options.only != EVERYTHING and not passing(options.name, options.only):
        parser.error("--only: no test that counts has such a name")
    return options


def _run(name: str, options: argparse.Namespace) -> Report:
    started = time.monotonic()
    outcomes = _outcomes(_suite(name, options), options)
    against = options.against if options.log == "sqlite" else f"{options.against} on {options.log}"
    report = Report(name, against, outcomes, time.monotonic() - started)
    print(report.as_json() if options.json else report.text(), flush=True)
    return report


def _suite(name: str, options: argparse.Namespace) -> Suite:
    if name == "java-tools":
        return Suite(java_tools.SETTINGS, java_tools.record if options.record else java_tools.check)
    return SCORED[name].of(options.only) if name in SCORED else CLIENTS[name]


def _outcomes(suite: Suite, options: argparse.Namespace) -> Sequence[Outcome]:
    try:
        with (
            metadata_log(options.log) as log_url,
            running(options.against, suite.settings, log_url=log_url) as broker,
        ):
            return suite.check(broker.bootstrap)
    except MissingTool as missing:
        return [Outcome("all", "skipped", str(missing))]
    except StartFailed as error:
        return [Outcome("broker start", "failed", str(error))]


if __name__ == "__main__":
    sys.exit(main())
