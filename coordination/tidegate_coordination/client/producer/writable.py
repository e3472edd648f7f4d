"""Waits for a producer's topic, and gets a producer id, before the first record."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidegate_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from ..cluster import ClassicCluster
from ..errors import Kind, Refused, Unsupported, kind_of_code
from ..failed import Failed
from .send_queue import ProducerId

WAIT_SECONDS: Final = 5.0
"""A topic that the cluster makes for a producer is there within this time."""
PAUSE_SECONDS: Final = 0.1
_MIN_METADATA_VERSION: Final = 4
# The answer of brokers before 3.0 to a client that may write, but not idempotently.
_NO_IDS: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)


async def writable_partitions(cluster: ClassicCluster, name: str) -> int:
    """Return how many partitions a topic has, once the topic exists.

    The request is that of every producer, so that auto.create.topics.enable applies.  A broker
    creates the topic after its answer.

    Raises:
      Failed: the topic does not exist, and the cluster does not create it.
      ClassicError: the cluster does not say.
    """
    topics = [MetadataRequestTopic(name=name)]
    await cluster.call_any("Metadata", MetadataRequest(topics), min_version=_MIN_METADATA_VERSION)
    latest = trio.current_time() + WAIT_SECONDS
    while True:
        await cluster.refresh([name])
        found = cluster.metadata.topics.get(name)
        code = found.error_code if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found and not code:
            return len(found.partitions)
        if trio.current_time() > latest or kind_of_code(code) is not Kind.RETRIABLE:
            break
        await trio.sleep(PAUSE_SECONDS)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Failed(
            f"there is no topic {name}, and the cluster does not make it by itself; see"
            " `tidegate topic create`"
        )
    raise Refused(f"topic {name}", code)


async def new_producer_id(cluster: ClassicCluster) -> ProducerId | None:
    """Return a new id; None where the cluster gives none to this client.

    Raises:
      ClassicError: the cluster does not answer, or refuses.
    """
    latest = trio.current_time() + WAIT_SECONDS
    while True:
        try:
            answer: InitProducerIdResponse = await cluster.call_any(
                "InitProducerId", InitProducerIdRequest(None)
            )
        except Unsupported:
            return None
        if answer.error_code in _NO_IDS:
            return None
        if not answer.error_code:
            return ProducerId(answer.producer_id, answer.producer_epoch)
        error = Refused("a producer id", answer.error_code)
        if error.kind is not Kind.RETRIABLE or trio.current_time() > latest:
            raise error
        await trio.sleep(PAUSE_SECONDS)
