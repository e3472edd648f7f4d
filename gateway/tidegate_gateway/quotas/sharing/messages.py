"""The messages between gateways about shares; the protocol's version 1.

    POST /v1/quota-shares    body: Asked    200: Granted

Both are msgpack arrays: fields are only added at the end, with a default.  A quota is named by a
hash of its resource and bucket, so the size of a message does not depend on names that clients
choose.  gateway/README.md has the contract.
"""

from __future__ import annotations

from hashlib import blake2b
from math import isfinite
from typing import Final, TypeVar

import msgspec

VERSION: Final = 1
SHARES_PATH: Final = "/v1/quota-shares"
MAX_WISHES: Final = 4_096
MAX_MISSED: Final = 1_000
MAX_MESSAGE_BYTES: Final = 1 << 18
"""Room for MAX_WISHES wishes, and for MAX_MISSED incarnations."""
KEY_BYTES: Final = 16


class Wish(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A gateway's share of one quota, and its demand, both a second.  key: see key_of()."""

    key: bytes
    quota: float
    demand: float
    held: float

    @property
    def is_sound(self) -> bool:
        """Whether this wish is valid; an invalid wish does not affect others of the message."""
        amounts = self.quota, self.demand, self.held
        return len(self.key) == KEY_BYTES and self.quota > 0 and all(map(_is_amount, amounts))


class Asked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The request of a gateway.

    missed: incarnations that do not answer it.  asked_ms: the time of the request on its own
    monotonic clock; 0 if it does not say.
    """

    version: int
    cluster_id: str
    incarnation: int
    missed: list[int]
    wishes: list[Wish]
    asked_ms: int = 0


class Granted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The answer.  shares: in the order of the wishes; None for a wish that is not granted."""

    version: int
    missed: list[int]
    shares: list[float | None]


_asked = msgspec.msgpack.Decoder(Asked)
_granted = msgspec.msgpack.Decoder(Granted)
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Message = TypeVar("Message", Asked, Granted)


class NotShares(ValueError):
    """The bytes are no message of this protocol, or of a version that is unknown here."""


def key_of(resource: str, user: str, client_id: str) -> bytes:
    """Return the name of a quota's bucket in messages."""
    parts = msgspec.msgpack.encode((resource, user, client_id))
    return blake2b(parts, digest_size=KEY_BYTES).digest()


def encode(message: Asked | Granted) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode_asked(data: bytes) -> Asked:
    """Read a request.

    Raises:
      NotShares: see there.
    """
    asked = _checked(_asked, data)
    if len(asked.wishes) > MAX_WISHES:
        raise NotShares("a question about shares names too many quotas")
    return asked


def decode_granted(data: bytes, wishes: int) -> Granted:
    """Read an answer to a number of wishes.

    Raises:
      NotShares: see there.
    """
    granted = _checked(_granted, data)
    given = [each for each in granted.shares if each is not None]
    if len(granted.shares) != wishes or not all(map(_is_amount, given)):
        raise NotShares("an answer about shares does not answer what was asked")
    return granted


def _is_amount(value: float) -> bool:
    return isfinite(value) and value >= 0


def _checked(decoder: msgspec.msgpack.Decoder[Message], data: bytes) -> Message:
    try:
        message = decoder.decode(data)
    except _DECODE_ERRORS as error:
        raise NotShares(f"not a message about shares: {error}") from error
    if message.version != VERSION:
        raise NotShares(f"version {message.version} of shares: this gateway speaks {VERSION}")
    if len(message.missed) > MAX_MISSED:
        raise NotShares("a message about shares misses too many gateways")
    return message
