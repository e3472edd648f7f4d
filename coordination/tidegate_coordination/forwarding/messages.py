"""The messages between gateways about proposals; the protocol's version 1.

    POST /v1/proposals    body: Ask    200: Told

Both are msgpack arrays: fields are only added at the end, with a default.  coordination/README.md
has the contract.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar

import msgspec

VERSION: Final = 1
PROPOSALS_PATH: Final = "/v1/proposals"
MAX_ASK_BYTES: Final = 8 << 20
# A larger question is refused. A proposal larger than MAX_ASK_BYTES travels alone in its question.
MAX_QUESTION_BYTES: Final = 2 * MAX_ASK_BYTES
# A larger proposal is never sent: it would leave no room for the question around it.
MAX_PROPOSAL_BYTES: Final = MAX_QUESTION_BYTES - 4096
MAX_ANSWER_BYTES: Final = 32 << 20


class Sent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One proposal.  number: from 1 on.  body: see codec.encode_proposal.

    again: it was sent before, to any gateway, and not answered.
    is_withdrawn: its author no longer waits for it: it must fail unless it was decided already.
    before_ms: it must fail once log time is later than that; 0 for no limit.
    rights_as_of: it must fail if ACLs changed after that log position; 0 for no such condition.
    tenant: the owner of all names in it; always 0, until the level TENANTS.
    """

    number: int
    kind: str
    body: bytes
    again: bool = False
    is_withdrawn: bool = False
    before_ms: int = 0
    rights_as_of: int = 0
    tenant: int = 0


class Ask(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Proposals of one gateway, to be decided in this order.

    acknowledged, clock_ms, uptime_ms: see events.Proposed.
    """

    version: int
    cluster_id: str
    incarnation: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    proposals: list[Sent]


class Outcome(IntEnum):
    """The outcome of a proposal.  Any other number counts as UNKNOWN."""

    ANSWERED = 0  # body: see codec.decode_answer
    FAILED = 1  # it changed nothing and never will; body: why, UTF-8
    ENDED = 2  # its author's incarnation has ended
    ACKNOWLEDGED = 3  # its author has acknowledged this number
    UNKNOWN = 4  # it may have been committed: ask again, here or elsewhere
    LEFT = 5  # this gateway has left the cluster: ask elsewhere
    NEWER = 6  # this gateway's release does not know its kind or tenants: it changed nothing


class Answered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The outcome and the answer of one proposal."""

    number: int
    outcome: int
    body: bytes


class Told(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Answers to a question.  position: the log up to it holds all events of these answers."""

    version: int
    position: int
    answers: list[Answered]


_ask = msgspec.msgpack.Decoder(Ask)
_told = msgspec.msgpack.Decoder(Told)
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


Message = TypeVar("Message", Ask, Told)


class NotSpoken(ValueError):
    """Not a message of this protocol, or one of a version that this gateway does not speak."""


def encode(message: Ask | Told) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode_ask(data: bytes) -> Ask:
    """Read a question.

    Raises:
      NotSpoken: see there.
    """
    return _checked(_ask, data)


def decode_told(data: bytes) -> Told:
    """Read an answer.

    Raises:
      NotSpoken: see there.
    """
    return _checked(_told, data)


def _checked(decoder: msgspec.msgpack.Decoder[Message], data: bytes) -> Message:
    try:
        message = decoder.decode(data)
    except _DECODE_ERRORS as error:
        raise NotSpoken(f"not a message of the forwarding protocol: {error}") from error
    if message.version != VERSION:
        raise NotSpoken(
            f"version {message.version} of the forwarding protocol: this gateway speaks {VERSION}"
        )
    return message
