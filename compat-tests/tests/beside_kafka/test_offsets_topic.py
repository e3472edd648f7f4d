"""`__consumer_offsets` holds what Apache Kafka's holds after the same calls of Kafka's tools.

Kafka's own formatters decode it, with the version of each key and value.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import pytest
from harness import install
from harness.broker import running
from harness.java_tools.script import TOOLS
from harness.toolbox import Toolbox

FORMATTERS: Final = "org.apache.kafka.tools.consumer"
# Records have keys, since the producer chooses a random partition for a record without a key.
RECORDS: Final = "".join(f"key:{number}\n" for number in range(6))
G: Final = "consumer-groups"
CALLS: Final = (
    ("topics", "--create --topic ot-a --partitions 2"),
    (
        "console-producer",
        "--topic ot-a --reader-property parse.key=true --reader-property key.separator=:",
    ),
    (
        "console-consumer",
        "--topic ot-a --group ot-members --from-beginning --max-messages 6 --timeout-ms 20000",
    ),
    (G, "--reset-offsets --group ot-simple --topic ot-a:0 --to-earliest --execute"),
    (G, "--reset-offsets --group ot-simple --topic ot-a --to-latest --execute"),
    (G, "--delete-offsets --group ot-simple --topic ot-a:1"),
    (G, "--reset-offsets --group ot-gone --topic ot-a:0 --to-earliest --execute"),
    (G, "--delete --group ot-gone"),
)
PATIENCE_SECONDS: Final = 60.0
READ: Final = "--topic __consumer_offsets --from-beginning --timeout-ms 4000"
# Ids and times, which differ between any two runs.
MASKED: Final = re.compile(
    r"(?<=\"topicId\":\")[\w-]{22}|\b1[6-9]\d{11}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def told(server: str) -> dict[str, list[str]]:
    """Return the values of each key, in their order, as the formatters print them."""
    with Toolbox() as box:
        for tool, words in CALLS:
            arguments = ["--bootstrap-server", server, *words.split()]
            printed = box.call(TOOLS[tool], arguments, stdin=RECORDS)
            assert printed.status == 0, (words, printed)
        values: defaultdict[str, list[str]] = defaultdict(list)
        for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
            arguments = ["--bootstrap-server", server, *READ.split()]
            arguments += ["--formatter", f"{FORMATTERS}.{formatter}"]
            for row in _rows(box, arguments):
                masked = MASKED.sub("*", json.dumps(row["value"], separators=(",", ":")))
                values[json.dumps(row["key"])].append(masked)
    return dict(values)


def _rows(box: Toolbox, arguments: list[str]) -> list[dict[str, Any]]:
    """Return the compared rows that a reader prints.

    On a busy machine a reader may get nothing within READ's timeout.  Then another one follows.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        printed = box.call(TOOLS["console-consumer"], arguments, seconds=90)
        found = [each for each in _documents(printed.stdout) if _is_compared(each)]
        if found or time.monotonic() > deadline:
            return found


def _is_compared(row: dict[str, Any]) -> bool:
    """Leave out the groups of the readers, which have other names each time.

    Also leave out the record that Kafka writes for a new group without members.  A gateway's first
    record of a group is that of its first generation.
    """
    group_id: str = row["key"]["data"]["group"]
    value = row["value"] or {"data": {}}
    return group_id.startswith("ot-") and bool(value["data"].get("generation", 1))


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the values of JSON that follow each other; the formatters write no line ends."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        row, at = decoder.raw_decode(text, at)
        yield row


def test_it_holds_what_kafkas_holds() -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(str(error))
    settings = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}
    found: dict[str, dict[str, list[str]]] = {}
    for broker in ("kafka", "tidegate"):
        with running(broker, settings) as started:
            found[broker] = told(started.bootstrap)
    assert len(found["kafka"]) >= 6
    assert found["tidegate"] == found["kafka"]
