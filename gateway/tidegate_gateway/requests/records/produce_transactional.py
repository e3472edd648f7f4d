"""Checks the transactional id of a Produce request.

That is: whether the client may use the id here, whether the batches have the id's producer id, and
the flags for the log's rules (see BatchFacts).
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD, with_began
from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.produce import ProduceRequest

from ...counting.refused_features import RefusedFeatures
from ...network.call import Peer, Rights
from ...network.connection import Connection
from ...network.receiver import CloseConnection
from ...transactions.arrivals import began_at, is_known
from ...unserved import TRANSACTIONS
from .produce_rules import (
    NO_TRANSACTIONAL_ID,
    allows_transactions,
    partition_numbers,
    transactional_flags,
    transactional_producers,
)

ELSEWHERE: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "the transactional id is at the source of a link, and the topic is not",
)
_DENIED: Final = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")


async def id_error(
    coordinator: Coordinator,
    refused: RefusedFeatures,
    peer: Peer,
    rights: Rights | None,
    request: ProduceRequest,
) -> tuple[ErrorCode, str] | None:
    """Return why the whole request is refused, by its transactional id or by its lack of one.

    rights: of its client; None without an authorizer.
    """
    if _is_denied(rights, request):
        return _DENIED
    if request.transactional_id is None:
        return NO_TRANSACTIONAL_ID if transactional_producers(request) else None
    if not allows_transactions(coordinator.state):
        await catch_up(coordinator)  # read the log first, since clients treat the refusal as fatal
    if allows_transactions(coordinator.state):
        return None
    refused.note(peer, TRANSACTIONS)
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTIONS.what


def _is_denied(rights: Rights | None, request: ProduceRequest) -> bool:
    """Return whether a request has transactional batches of an id that its client may not use."""
    name = request.transactional_id
    if rights is None or name is None or may_write_with(rights, name):
        return False
    return bool(transactional_producers(request))


async def misfit_of(
    coordinator: Coordinator, request: ProduceRequest
) -> tuple[ErrorCode, str] | None:
    """Return why the transactional batches of a request cannot be written.

    The log's rules know only the producer id of a batch.  So this checks that the producer id
    belongs to the request's transactional id.
    """
    name = request.transactional_id
    if name is None:
        return None
    if _is_elsewhere(coordinator, name):
        return ELSEWHERE
    transactions = coordinator.state.transactions
    producers = transactional_producers(request)
    if len(producers) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of several producers"
    for producer_id, _ in producers:
        if transactions.name_of(producer_id) != name:
            await catch_up(coordinator)
        if transactions.name_of(producer_id) != name:
            text = "the transactional id has another producer id"
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, text
    return None


async def flags_of(
    coordinator: Coordinator, connection: Connection, request: ProduceRequest, version: int
) -> int:
    """Return the flags of a request's transactional batches; see BatchFacts.

    Raises:
      CloseConnection: the client has disconnected, and may have begun another transaction at
        another gateway.
    """
    name = request.transactional_id
    flags = transactional_flags(name, version)
    if name is None or flags & MAY_ADD or _is_elsewhere(coordinator, name):
        return flags
    if not transactional_producers(request):
        return flags  # so a client without the right to the id causes no read of the log
    state = coordinator.state
    if not is_known(state, name, partition_numbers(state.topics, request)):
        await catch_up(coordinator)
    began = began_at(state, name)
    if connection.is_gone():
        raise CloseConnection()
    return with_began(flags, began)


def _is_elsewhere(coordinator: Coordinator, transactional_id: str) -> bool:
    """Return whether an id is at the source of a link."""
    return bool(coordinator.state.link_groups.link_of_id(transactional_id))


async def catch_up(coordinator: Coordinator) -> None:
    """Read the log to its end.

    Raises:
      CloseConnection: the log does not answer.
    """
    try:
        await coordinator.catch_up()
    except CoordinatorUnavailable as error:
        raise CloseConnection(f"no answer to Produce: {error}") from error


def may_write_with(rights: Rights, transactional_id: str) -> bool:
    """Return whether a client may use a transactional id."""
    return rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
