"""Differences from Apache Kafka that are meant, each by name and with its reason.

A call named here may print what it likes; it still passes when it prints what Kafka prints.
"""

from __future__ import annotations

import re

CALLS = {
    "topics --create --topic jt-three --replication-factor 3": (
        "the replication factor is a label: the object store replicates, any value is accepted"
    ),
    "configs --describe --client jt-client": "quotas are not offered yet",
    "acls --list": "ACLs are not offered yet",
}

# First match counts.  Only absence is permitted: an API that is offered has Kafka's versions.
ABSENT_APIS = [
    (re.compile(r"Share"), "share groups (KIP-932) are not offered yet"),
    (re.compile(r"Streams"), "streams groups (KIP-1071) are not offered yet"),
    (re.compile(r"ConsumerGroup(Heartbeat|Describe)"), "KIP-848 groups are not offered yet"),
    (re.compile(r"Sasl|Scram|DelegationToken"), "SASL and its credentials are not offered yet"),
    (re.compile(r"ClientQuotas"), "quotas are not offered yet"),
    (re.compile(r"Raft|Quorum|UnregisterBroker"), "there is no KRaft quorum"),
    (
        re.compile(r"Reassignments|ReplicaLogDirs|ElectLeaders"),
        "partitions have no replicas to move",
    ),
]


def absent_api(api: str) -> str:
    """Why this API may be missing, or an empty string."""
    return next((reason for pattern, reason in ABSENT_APIS if pattern.search(api)), "")
