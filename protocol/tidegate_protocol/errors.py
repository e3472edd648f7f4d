"""Errors of the wire protocol: of the peer, of our own code, and of a record batch."""

from __future__ import annotations

from enum import Enum


class ProtocolError(Exception):
    """Base of the two below; never raised itself."""


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that the Kafka protocol does not allow.  Close its connection."""


class LocalProtocolError(ProtocolError):
    """We tried to send what the protocol does not allow.  A bug: let it propagate."""


class InvalidReason(Enum):
    """Why a record batch is refused; each stands for one Kafka error code."""

    CORRUPT = "corrupt"
    INVALID_RECORD = "invalid record"


class InvalidBatch(Exception):
    """A record batch that must not be stored.  Answer its partition with the reason's code.

    Not a ProtocolError: the connection stays open, and other partitions are not affected.
    """

    def __init__(self, reason: InvalidReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
