"""The calls of Kafka's tools in migration/tools.py, and the differences that are limits of links.

The calls are those of java-tools about records, offsets, groups and transactions.  Calls that
change topics, configs and features are left out, since topics are made at the source.
"""

from __future__ import annotations

from typing import Final

from harness.java_tools.groups import GROUPS, PERFORMANCE
from harness.java_tools.permitted import CALLS
from harness.java_tools.script import Call, Step
from harness.java_tools.topics import CONSOLE, DELETE_RECORDS, OFFSETS
from harness.java_tools.transactions import TRANSACTIONS
from harness.java_tools.verifiable import PARTITIONS, TOPIC

TOPICS: Final[list[tuple[str, int, dict[str, str]]]] = [
    ("jt-a", 6, {"retention.ms": "3600000"}),
    ("jt-one", 1, {}),
    ("jt-default", 4, {}),
    ("jt-assigned", 2, {}),
    ("jt-txn", 2, {}),
    ("jt-txn-2", 1, {}),
    ("jt-perf", 4, {}),
    (TOPIC, PARTITIONS, {}),
]
"""Name, partitions and configs."""

LOOKS: Final[list[Step]] = [
    Call("topics", "--list", view="sorted"),
    Call("topics", "--describe --topic jt-a"),
    Call("topics", "--describe --topic jt-missing"),
    Call("topics", "--describe --topics-with-overrides", view="sorted", keep="jt-"),
    Call("topics", "--describe --under-replicated-partitions"),
    Call("topics", "--describe --unavailable-partitions"),
    Call("configs", "--describe --topic jt-one"),
    Call("configs", "--describe --topic jt-a"),
    Call("configs", "--describe --topic jt-missing"),
]


_DELETES: Final = ("below 2", "below 2 again", "below 1", "all")
"""Labels of calls that a gateway refuses; at Kafka they change what later calls print."""


def _is_left_out(step: Step) -> bool:
    if not isinstance(step, Call):
        return False
    is_made = step.tool == "topics" and "--create" in step.words
    is_deleted = step.tool == "delete-records" and step.label in _DELETES
    return is_made or is_deleted or step.tool == "features" or "jt-auto" in step.words


SCRIPT: Final[list[Step]] = [
    step
    for part in (LOOKS, CONSOLE, OFFSETS, DELETE_RECORDS, GROUPS, TRANSACTIONS, PERFORMANCE)
    for step in part
    if not _is_left_out(step)
]

_RECORDS: Final = "records of a copy are deleted at its source alone"
_MARKERS: Final = "markers are written at the source alone: a tool has to abort there"
_SENTENCE: Final = "transactor send jt-tx-c, timed out"
LIMITS: Final[dict[str, str]] = {
    "delete-records beyond the end": _RECORDS,
    "transactions abort --topic jt-txn-2 --partition 0 --start-offset 0": _MARKERS,
    "transactions describe-producers --topic jt-txn-2 --partition 0": _MARKERS,
    "transactions abort again": _MARKERS,
    "get-offsets --topic jt-txn-2": _MARKERS,
    _SENTENCE: CALLS[_SENTENCE],
}
"""By name of a call: why it may print something else."""
