"""run NAME [--against tidegate|kafka|ADDRESS] [--json]: see README.md."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from harness import clients, go_suite, kafka_go_suite, librdkafka_suite, python_suite
from harness.broker import running
from harness.install import MissingTool
from harness.java_tools import suite as java_tools
from harness.process import StartFailed
from harness.report import Outcome, Report
from harness.suite import Suite

SUITES: dict[str, Suite] = {
    "java-tools": Suite(java_tools.SETTINGS, java_tools.check),
    "franz-go": Suite(go_suite.SETTINGS, go_suite.check),
    "kafka-python": Suite(python_suite.SETTINGS, python_suite.check),
    "kafka-go": Suite(kafka_go_suite.SETTINGS, kafka_go_suite.check),
    "librdkafka": Suite(librdkafka_suite.SETTINGS, librdkafka_suite.check_default),
    "librdkafka-noautocreate": Suite(
        librdkafka_suite.WITHOUT_AUTO_CREATE, librdkafka_suite.check_without_auto_create
    ),
    **{name: Suite(clients.SETTINGS, client) for name, client in clients.CLIENTS.items()},
}


def main() -> int:
    """Run what the command line names; 1 if something failed that is not excluded."""
    options = _options()
    signal.signal(signal.SIGTERM, _leave)  # so that the brokers are stopped on the way out
    if options.record:
        SUITES["java-tools"] = Suite(java_tools.SETTINGS, java_tools.record)
    clients.options.records = options.records
    names = list(SUITES) if options.name == "all" else [options.name]
    failed = [_run(name, options.against, as_json=options.json).failed for name in names]
    return 1 if any(failed) else 0


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compat-tests/run", description=__doc__)
    parser.add_argument("name", choices=[*SUITES, "all"])
    parser.add_argument("--against", default="tidegate", help="tidegate, kafka or HOST:PORT")
    parser.add_argument("--json", action="store_true", help="one JSON object a suite")
    parser.add_argument("--records", type=int, default=100_000, help="of the client round trips")
    parser.add_argument("--record", action="store_true", help="java-tools: write the record anew")
    options = parser.parse_args()
    if options.record and (options.name, options.against) != ("java-tools", "kafka"):
        parser.error("--record goes with java-tools --against kafka only")
    return options


def _run(name: str, against: str, *, as_json: bool) -> Report:
    started = time.monotonic()
    outcomes = _outcomes(SUITES[name], against)
    report = Report(name, against, outcomes, time.monotonic() - started)
    print(report.as_json() if as_json else report.text(), flush=True)
    return report


def _outcomes(suite: Suite, against: str) -> Sequence[Outcome]:
    try:
        with running(against, suite.settings) as broker:
            return suite.check(broker.bootstrap)
    except MissingTool as missing:
        return [Outcome("all", "skipped", str(missing))]
    except StartFailed as error:
        return [Outcome("broker start", "failed", str(error))]


if __name__ == "__main__":
    sys.exit(main())
