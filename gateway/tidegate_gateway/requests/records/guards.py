"""Guards of the APIs of records.

Produce and Fetch check rights in their handlers: a produce request has an answer for each batch, in
two stages, and the partitions of a fetch come from its session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    delete_records,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)

from ...security.guard import Caller, Guard, Guarding, parted

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _per_topic(
    operation: Operation,
    refused: Callable[[Any, int, int, str | None], Any],
    name_of: Callable[[Any], str] = lambda topic: topic.name,
    text: str | None = None,
) -> Guard:
    """Return a guard that needs a right to each topic.

    refused: the API's generated function for refusals.  text: for the error code.
    """

    def guard(caller: Caller, request: Any) -> Guarding:
        request.topics, denied = yield from parted(
            request.topics, lambda each: caller.may_topic(operation, name_of(each))
        )
        if not denied:
            return (yield request)
        response = (yield request) if request.topics else None
        refusal = refused(replace(request, topics=denied), caller.version, _DENIED, text)
        if response is None:
            return refusal
        response.topics += refusal.topics
        return response

    return guard


guard_list_offsets: Final = _per_topic(Operation.DESCRIBE, list_offsets.refused)
guard_delete_records: Final = _per_topic(Operation.DELETE, delete_records.refused)
guard_describe_producers: Final = _per_topic(
    Operation.READ, describe_producers.refused, text=error_text(_DENIED)
)
_describing_epochs: Final = _per_topic(
    Operation.DESCRIBE, offset_for_leader_epoch.refused, lambda topic: topic.topic
)


def guard_offset_for_leader_epoch(
    caller: Caller, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
) -> Guarding:
    """CLUSTER_ACTION on the cluster, or DESCRIBE of each topic."""
    if caller.sees_cluster(Operation.CLUSTER_ACTION):
        return (yield request)
    return (yield from _describing_epochs(caller, request))
