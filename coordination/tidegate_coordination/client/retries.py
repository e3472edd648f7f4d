"""When a call is repeated, and after how long.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tidegate_protocol.error_codes import ErrorCode

from .errors import ClassicError, Kind, kind_of_code

# Requests that change nothing, so that one of unknown outcome may be repeated.
READS: Final = frozenset(
    {
        "Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "DescribeGroups",
        "ListGroups", "ApiVersions", "OffsetForLeaderEpoch", "DescribeAcls", "DescribeConfigs",
        "DescribeLogDirs", "ListPartitionReassignments", "DescribeQuorum", "DescribeCluster",
        "DescribeProducers", "DescribeTransactions", "ListTransactions", "ListConfigResources",
        "DescribeTopicPartitions", "DescribeClientQuotas", "DescribeUserScramCredentials",
    }
)  # fmt: skip
# Where responses have their error codes, beside the field error_code of the response itself.
ITEMS: Final = {
    "AddPartitionsToTxn": "results_by_topic_v3_and_below.results_by_partition",
    "AlterConfigs": "responses",
    "CreatePartitions": "results",
    "CreateTopics": "topics",
    "DeleteGroups": "results",
    "DeleteTopics": "responses",
    "DescribeConfigs": "results",
    "DescribeGroups": "groups",
    "DescribeProducers": "topics.partitions",
    "DescribeTransactions": "transaction_states",
    "Fetch": "responses.partitions",
    "IncrementalAlterConfigs": "responses",
    "ListOffsets": "topics.partitions",
    "OffsetCommit": "topics.partitions",
    "OffsetFetch": "groups",
    "OffsetForLeaderEpoch": "topics.partitions",
    "Produce": "responses.partition_responses",
    "TxnOffsetCommit": "topics.partitions",
}
# Error codes which say that the broker was chosen by outdated metadata.
_OLD_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries, with the Java client's defaults (retry.backoff.ms and others).

    Attributes:
      total_seconds: no try starts later than this after the first (default.api.timeout.ms).
      jitter: share by which a pause is longer or shorter, so that clients do not try in step.
    """

    first_seconds: float = 0.1
    longest_seconds: float = 1.0
    total_seconds: float = 60.0
    jitter: float = 0.2

    def pauses(self, rng: Random) -> Iterator[float]:
        """Yield the pause before each try after the first, without end."""
        seconds = self.first_seconds
        while True:
            yield seconds * rng.uniform(1 - self.jitter, 1 + self.jitter)
            seconds = min(2 * seconds, self.longest_seconds)


def may_repeat(name: str, error: ClassicError) -> bool:
    """Return whether a call that failed may be tried again."""
    return error.kind is Kind.RETRIABLE and (error.is_without_effect or name in READS)


def codes_in(name: str, response: Any) -> set[int]:
    """Return the error codes in a response, without NONE."""
    level = [response]
    codes = {_code(response)}
    for field in ITEMS.get(name, "").split("."):
        if field:
            level = [each for parent in level for each in getattr(parent, field)]
            codes.update(map(_code, level))
    return codes - {ErrorCode.NONE}


def _code(item: Any) -> int:
    code: int = getattr(item, "error_code", ErrorCode.NONE)
    return code or getattr(item, "partition_error_code", ErrorCode.NONE)


def code_to_repeat(name: str, codes: Iterable[int]) -> int:
    """Return the code for which to repeat a request that was answered with codes; 0 for none.

    A read is repeated for any retriable code.  Any other request is repeated only if the broker did
    nothing at all.  With other codes the broker may have done a part of the request.  After
    NOT_LEADER_OR_FOLLOWER it may even have written the batch.
    """
    found = sorted(codes)
    if name in READS:
        return next((each for each in found if kind_of_code(each) is Kind.RETRIABLE), 0)
    return ErrorCode.NOT_CONTROLLER if found == [ErrorCode.NOT_CONTROLLER] else 0


def is_metadata_old(codes: Iterable[int]) -> bool:
    """Return whether the codes ask for new metadata."""
    return not _OLD_METADATA.isdisjoint(codes)


Clock = Callable[[], float]
"""Seconds that never go back."""
