"""Intended differences from Apache Kafka, each by name and with its reason.

The output of a call named here may differ.  If the output is Kafka's, the call still passes.
"""

from __future__ import annotations

import re

_WHOLE = (
    "WriteTxnMarkers ends the whole transaction and fences its producer; in Kafka it frees one"
    " partition, and the transaction goes on"
)
CALLS = {
    "topics --create --topic jt-three --replication-factor 3": (
        "the replication factor is a label: the object store replicates, any value is accepted"
    ),
    "transactor send jt-tx-c, timed out": (
        "a refused batch gets a sentence that says why; Kafka sends none, the client shows its own"
    ),
    "transactions describe, terminated": (
        "InitProducerId aborts what is open with one new epoch, Kafka with two"
    ),
    "transactions describe, aborted by a tool": _WHOLE,
    "transactions describe-producers --topic jt-txn-2 --partition 0": _WHOLE,
    **{
        f"features {words} --dry-run": (
            "transaction.version is part of tidegate.metadata.version, which never falls"
        )
        for words in (
            "downgrade --feature transaction.version=1",
            "downgrade --feature transaction.version=1 --unsafe",
            "disable --feature transaction.version",
        )
    },
}

# Columns of tables.
COLUMNS = {
    "LatestCoordinatorEpoch": "no coordinator has an epoch; 0 stands for that of any transaction",
}

# The first match counts.  These APIs may be missing.  An API that the gateway offers must have
# Kafka's versions.
ABSENT_APIS = [
    (re.compile(r"Share"), "share groups (KIP-932) are not offered yet"),
    (re.compile(r"Streams"), "streams groups (KIP-1071) are not offered yet"),
    (re.compile(r"ConsumerGroup(Heartbeat|Describe)"), "KIP-848 groups are not offered yet"),
    (re.compile(r"Raft|Quorum|UnregisterBroker"), "there is no KRaft quorum"),
    (
        re.compile(r"Reassignments|ReplicaLogDirs|ElectLeaders"),
        "partitions have no replicas to move",
    ),
]


def absent_api(api: str) -> str:
    """Why this API may be missing at the gateway, or an empty string."""
    return next((reason for pattern, reason in ABSENT_APIS if pattern.search(api)), "")


def added_api(api: str) -> str:
    """Why the gateway may offer this API although Kafka does not, or an empty string."""
    return "Kafka offers it with a plug-in (KIP-714)" if "Telemetry" in api else ""
