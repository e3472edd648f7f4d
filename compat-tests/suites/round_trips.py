"""Round trips by client programs of our own (clients/), one per published client library.

Each program makes its topics, and sends --records records with every codec its library has.  It
reads them by groups whose members come and go, resumes, and seeks by time.  It checks content,
order and offsets, prints a line per check, and exits non-zero at the first difference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial

from harness import install
from harness.places import HERE, OLD_KAFKA_PYTHON_VERSIONS, log_of
from harness.process import Command, run_to_end, tail
from harness.report import Outcome

SETTINGS = {
    "node.id": "1",
    "num.partitions": "12",  # kcat can create a topic only by using it
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
SECONDS = 600
LINE = re.compile(r"^(ok|FAILED) (.*)$", re.MULTILINE)


def _kcat() -> Command:
    return [sys.executable, HERE / "clients" / "kcat" / "round_trip.py", install.kcat()]


def _kafkajs() -> Command:
    return ["node", install.node_client("kafkajs") / "round_trip.js"]


def _go(name: str) -> Command:
    return [install.go_clients() / name]


def _old_kafka_python(version: str) -> Command:
    program = HERE / "clients" / "kafka-python-old" / "old_kafka_python.py"
    return [install.old_kafka_python(version), program]


def _check(
    name: str, command: Callable[[], Command], bootstrap: str, records: int
) -> Sequence[Outcome]:
    log = log_of(name)
    words = [*command(), bootstrap, str(records)]
    status = run_to_end(words, log, seconds=SECONDS)
    found = LINE.findall(log.read_text(errors="replace"))
    outcomes = [
        Outcome(what, "passed") if word == "ok" else Outcome(what, "failed") for word, what in found
    ]
    if status != 0 and not any(outcome.status == "failed" for outcome in outcomes):
        outcomes.append(Outcome("the program", "failed", f"exit status {status}\n{tail(log)}"))
    return outcomes


CLIENTS: dict[str, Callable[[str, int], Sequence[Outcome]]] = {
    "kcat": partial(_check, "kcat", _kcat),
    "kafkajs": partial(_check, "kafkajs", _kafkajs),
    "kafka-go-client": partial(_check, "kafka-go-client", partial(_go, "kafka-go-client")),
    "kgo-client": partial(_check, "kgo-client", partial(_go, "kgo-client")),
    **{
        name: partial(_check, name, partial(_old_kafka_python, version))
        for version in OLD_KAFKA_PYTHON_VERSIONS
        for name in [f"kafka-python-{version}"]
    },
}
