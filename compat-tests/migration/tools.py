"""Kafka's own tools through a gateway that forwards to Kafka print what they print at Kafka itself.

    compat-tests/run link-tools

The same calls run twice, each time on a fresh Apache Kafka with the same topics: first at Kafka,
then at a gateway whose link mirrors the topics and forwards writes, groups and transactional ids.
Topics, groups and ids stay at the source.  Texts are compared as compat-tests/run java-tools does.
The exit status is 1 if a text differs, except for the limits in tools_script.py.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from exactly_once.clients import wait_until
from harness import broker, install
from harness.java_tools import verifiable
from harness.java_tools.script import Call, Step
from harness.java_tools.suite import Normal, judge, on_stage, play
from harness.report import Outcome, Report
from runner.result import Result
from runner.shared import NoOptions

from migration.mirror import Mirror
from migration.tools_script import LIMITS, SCRIPT, TOPICS

LINK: Final = "source"
SETTINGS: Final = {
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "link.fetch.wait.ms": "100",
    "link.topics.interval.ms": "1000",
}
PATIENCE_SECONDS: Final = 60.0


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, count, 1, config=config) for name, count, config in TOPICS]
    for made in admin.create_topics(wanted).values():
        made.result(PATIENCE_SECONDS)


def _sees_copy(step: Step) -> bool:
    """Return whether a gateway answers a call from its copy, which may lack the newest records."""
    if not isinstance(step, Call):
        return False
    is_of_producers = "producers" in step.words or "find-hanging" in step.words
    return step.tool == "get-offsets" or (step.tool == "transactions" and is_of_producers)


def _each_caught_up(script: Iterable[Step], mirror: Mirror) -> Iterator[Step]:
    """Yield each step.  Before a step that sees the copy, wait until the copy is complete.

    Raises:
      TimeoutError: the copy does not become complete.
    """
    for step in script:
        if _sees_copy(step) and not wait_until(lambda: _is_whole(mirror), PATIENCE_SECONDS, 0.5):
            raise TimeoutError(f"the copies are not complete before {step}")
        yield step


def _is_whole(mirror: Mirror) -> bool:
    status = mirror.command("link", "status", LINK, may_fail=True)
    copies = status.get("copies", ())
    return len(copies) == len(TOPICS) and all(each["behind"] == 0 for each in copies)


def _played(bootstrap: str, script: Iterable[Step]) -> tuple[dict[str, Normal], Sequence[Outcome]]:
    """Return the output of each call, and the results of the verifiable tools."""
    with on_stage(bootstrap) as stage:
        printed = {call.name: answer for call, answer in play(stage, script)}
    return printed, list(verifiable.look(bootstrap))


@contextmanager
def _source() -> Generator[str]:
    with broker.running("kafka") as kafka:
        _create_topics(kafka.bootstrap)
        yield kafka.bootstrap


@contextmanager
def _gateway(source: str) -> Generator[tuple[str, Mirror]]:
    with broker.running("tidegate", SETTINGS) as gateway:
        assert isinstance(gateway, broker.LocalBroker)
        mirror = Mirror("--data", str(gateway.folder / "data"))
        words = ["--topics", "jt.*", "--forward-writes"]
        words += ["--groups", "jt*", "--transactional-ids", "jt-*"]
        mirror.command("link", "add", LINK, "--bootstrap-servers", source, *words)
        if not wait_until(lambda: _is_whole(mirror), PATIENCE_SECONDS, 0.5):
            raise TimeoutError("the topics are not mirrored")
        yield gateway.bootstrap, mirror


def compare(script: Sequence[Step]) -> list[Outcome]:
    """Run the script at both brokers; return the outcome of each call."""
    with _source() as source:
        there, outcomes = _played(source, script)
    with _source() as source, _gateway(source) as (gateway, mirror):
        here, more = _played(gateway, _each_caught_up(script, mirror))
    found = [judge(name, there[name], answer, LIMITS) for name, answer in here.items()]
    found += [replace(each, name=f"at Kafka: {each.name}") for each in outcomes]
    return [*found, *more]


def main(options: NoOptions) -> Result:
    """Run it."""
    install.kafka_jars()  # fail at once if a tool is missing
    begun = time.monotonic()
    outcomes = compare(SCRIPT)
    report = Report("tools", "a gateway that forwards", outcomes, time.monotonic() - begun)
    return Result(not report.failed, report.text(), report.figures())
