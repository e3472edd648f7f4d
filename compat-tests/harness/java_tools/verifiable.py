"""Kafka's verifiable producer and consumer: what was acknowledged is consumed once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from harness.java_tools.script import TOOLS
from harness.report import Outcome
from harness.toolbox import Printed, Toolbox, call_alone

TOPIC = "jt-verify"
RECORDS = 5000
PARTITIONS = 3
_Event = dict[str, Any]


def check(box: Toolbox, bootstrap: str) -> Iterator[Outcome]:
    """Create the topic, then look()."""
    server = ["--bootstrap-server", bootstrap, "--topic", TOPIC]
    box.call(TOOLS["topics"], [*server, "--create", "--partitions", str(PARTITIONS)])
    yield from look(bootstrap)


def look(bootstrap: str) -> Iterator[Outcome]:
    """Produce RECORDS, consume them in two groups, and judge the events the tools print."""
    server = ["--bootstrap-server", bootstrap, "--topic", TOPIC]
    produced = _run("verifiable-producer", [*server, "--max-messages", str(RECORDS)])
    yield _outcome("verifiable-producer", produced, producer_faults(events(produced.stdout)))
    # The first consumer commits by timer, the second one after each batch of records.
    for group, more in (("jt-v1", ["--enable-autocommit"]), ("jt-v2", [])):
        words = [*server, "--group-id", group, "--reset-policy", "earliest", "--verbose", *more]
        consumed = _run("verifiable-consumer", [*words, "--max-messages", str(RECORDS)])
        faults = consumer_faults(events(produced.stdout), events(consumed.stdout))
        yield _outcome(f"verifiable-consumer {' '.join(more) or 'commits'}", consumed, faults)


def events(stdout: str) -> list[_Event]:
    """The JSON objects the tool printed, one a line."""
    return [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]


def producer_faults(produced: Sequence[_Event]) -> list[str]:
    """The errors of a producer's events: refusals, offsets not 0, 1, 2... per partition."""
    errors = [event for event in produced if event["name"] == "producer_send_error"]
    faults = [f"{len(errors)} sends failed, first {errors[0]}"] if errors else []
    acknowledged = _acknowledged(produced)
    if len(acknowledged) != RECORDS:
        faults.append(f"{len(acknowledged)} of {RECORDS} acknowledged")
    for partition in range(PARTITIONS):
        offsets = [place[1] for place in acknowledged if place[0] == partition]
        if offsets != list(range(len(offsets))):
            faults.append(f"offsets of partition {partition} are not 0, 1, 2, ...")
    return faults


def consumer_faults(produced: Sequence[_Event], consumed: Sequence[_Event]) -> list[str]:
    """The errors of a consumer's events: lost, repeated, foreign or misplaced records."""
    acknowledged = _acknowledged(produced)
    records = [event for event in consumed if event["name"] == "record_data"]
    seen = [((event["partition"], event["offset"]), event["value"]) for event in records]
    lost = acknowledged.keys() - {place for place, _ in seen}
    wrong = [place for place, value in seen if acknowledged.get(place) != value]
    faults = [f"{len(lost)} acknowledged records lost, first {min(lost)}"] if lost else []
    if wrong:
        faults.append(f"{len(wrong)} records are not what was sent, first {wrong[0]}")
    if len(seen) != len({place for place, _ in seen}):
        faults.append("records were consumed twice")
    for partition in range(PARTITIONS):
        offsets = [place[1] for place, _ in seen if place[0] == partition]
        if offsets != sorted(offsets):
            faults.append(f"partition {partition} was not consumed in order")
    return faults + _commit_faults(consumed)


def _commit_faults(consumed: Sequence[_Event]) -> list[str]:
    commits = [event for event in consumed if event["name"] == "offsets_committed"]
    bad = [event for event in commits if not event["success"]]
    return [f"{len(bad)} commits failed, first {bad[0]}"] if bad else []


def _acknowledged(produced: Sequence[_Event]) -> dict[tuple[int, int], str]:
    successes = [event for event in produced if event["name"] == "producer_send_success"]
    return {(event["partition"], event["offset"]): event["value"] for event in successes}


def _run(tool: str, words: list[str]) -> Printed:
    return call_alone(TOOLS[tool], words, seconds=90)


def _outcome(name: str, printed: Printed, faults: Sequence[str]) -> Outcome:
    if printed.status:
        faults = [*faults, f"exit status {printed.status}: {printed.stderr[-500:]}"]
    return Outcome(name, "failed" if faults else "passed", "; ".join(faults))
