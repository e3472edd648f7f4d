"""How a leader makes sure that its partition takes part in the transaction of a batch (KIP-890).

The leader asks the coordinator unless the producer has an open transaction in the partition
already.  With the newer requests of producers (Produce v12, TxnOffsetCommit v5) the leader adds the
partition itself, and waits a little while an end is under way.
"""

from __future__ import annotations

import trio

from tidegate_protocol.error_codes import ErrorCode

from ..broker_state import BrokerState
from ..model_topics import PartitionKey
from ..model_transaction import refused
from ..refusals import Refused
from .access import asked_by_a_broker
from .ends import ProducerIdentity
from .keeper import keep
from .steps import add, verify

_RETRY_SECONDS = 0.02


async def take_part(
    broker: BrokerState,
    transactional_id: str,
    producer: ProducerIdentity,
    key: PartitionKey,
    *,
    may_add: bool,
    knows_abortable: bool,
) -> None:
    """Add the partition, or check that a client has added it.

    may_add: whether the request's version adds the partition.  knows_abortable: whether its version
    knows TRANSACTION_ABORTABLE; if not, a partition that takes no part gets INVALID_TXN_STATE.

    Raises:
      Refused: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS,
        TRANSACTION_ABORTABLE, INVALID_TXN_STATE, or an error of coordinators.
    """
    try:
        if may_add:
            await _add(broker, transactional_id, producer, key)
        elif broker.cluster.profile.verifies:
            verify(asked_by_a_broker(broker, transactional_id), producer, key)
    except Refused as failed:
        raise refused(_told(failed.code, knows_abortable=knows_abortable)) from failed


def _told(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


async def _add(
    broker: BrokerState, transactional_id: str, producer: ProducerIdentity, key: PartitionKey
) -> None:
    """Add the partition; try again for a moment while an end is under way."""
    gives_up = broker.now() + broker.cluster.transaction_settings.retry_seconds
    while True:
        transaction = asked_by_a_broker(broker, transactional_id)
        try:
            add(transaction, producer, [key], broker.now_ms())
        except Refused as failed:
            is_brief = failed.code == ErrorCode.CONCURRENT_TRANSACTIONS
            if not is_brief or broker.now() + _RETRY_SECONDS > gives_up:
                raise
        else:
            keep(broker, transaction)
            return
        await trio.sleep(_RETRY_SECONDS)
