"""Transactional ids at their coordinator: which requests a broker refuses."""

from __future__ import annotations

from tidegate_protocol.error_codes import ErrorCode

from .. import rights
from ..broker_state import Asked, BrokerState
from ..model_topics import NO_LEADER
from ..model_transaction import ModelTransaction, refused
from .ends import Circumstances

_EPOCH_BUMPS_SINCE = 2


def may_write(asked: Asked, transactional_id: str) -> bool:
    """Return whether the principal may produce with a transactional id."""
    return asked.may(rights.WRITE, rights.TRANSACTIONAL_ID, transactional_id)


def coordinated(asked: Asked, transactional_id: str) -> ModelTransaction | None:
    """Return a transactional id that this broker coordinates; None for an unknown one.

    Raises:
      Refused: NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
    """
    cluster = asked.broker.cluster
    if cluster.coordinator_of(transactional_id) != asked.broker.node_id:
        raise refused(ErrorCode.NOT_COORDINATOR)
    return _loaded(cluster.transactions.get(transactional_id))


def asked_by_a_broker(broker: BrokerState, transactional_id: str) -> ModelTransaction:
    """Return a transactional id for a broker that asks its coordinator.

    Raises:
      Refused: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or
        INVALID_PRODUCER_ID_MAPPING.
    """
    if broker.cluster.coordinator_of(transactional_id) == NO_LEADER:
        raise refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return known(_loaded(broker.cluster.transactions.get(transactional_id)))


def _loaded(transaction: ModelTransaction | None) -> ModelTransaction | None:
    if transaction is not None and transaction.is_loading:
        raise refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return transaction


def known(transaction: ModelTransaction | None) -> ModelTransaction:
    """Return a transactional id that has a producer.

    Raises:
      Refused: INVALID_PRODUCER_ID_MAPPING.
    """
    if transaction is None:
        raise refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return transaction


def circumstances(broker: BrokerState) -> Circumstances:
    """Return the clock, the producer ids and the rules for a step at this broker."""
    return Circumstances(
        broker.now_ms(),
        lambda: broker.cluster.next_producer_id(broker.node_id),
        broker.cluster.profile.transaction_version >= _EPOCH_BUMPS_SINCE,
    )
