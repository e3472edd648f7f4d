"""Client quotas: the clients that they apply to, their limits, and which quota applies (KIP-55,
KIP-546).

A quota belongs to an entity: a user, a client id, both, or an address.  Each part of an entity has
a name, or is the default of all names without their own quota.  Eight levels of entities match a
client.  The most specific one that has the quota holds; see limit_of().
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

import msgspec

DEFAULT: Final = ""
"""The name of a default entity.  On the wire it is null, and "" is no name at all."""


class EntityType(StrEnum):
    """The parts of an entity, as on the wire."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaKey(StrEnum):
    """The use that a quota limits, by its name on the wire.

    PRODUCE, FETCH: bytes in a second.  REQUEST: percent of the time of one thread.
    MUTATION: partitions that are created or deleted in a second (KIP-599).
    CONNECTION: connections of an address in a second (KIP-612).
    """

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


OF_CLIENTS: Final = frozenset(
    {QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.MUTATION}
)
OF_ADDRESSES: Final = frozenset({QuotaKey.CONNECTION})


class QuotaEntity(msgspec.Struct, array_like=True, frozen=True):
    """Whom a quota applies to.

    Each part: a name, DEFAULT, or None if the entity does not have the part.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> Iterator[tuple[EntityType, str]]:
        """Yield the parts that it has."""
        names = self.user, self.client_id, self.ip
        for kind, name in zip(EntityType, names, strict=True):
            if name is not None:
                yield kind, name


class QuotaChange(msgspec.Struct, array_like=True, frozen=True):
    """A quota of one entity.  value: None if it is removed."""

    entity: QuotaEntity
    key: str
    value: float | None


class Bucket(NamedTuple):
    """The clients that share a quota.  "": of any user, or with any client id."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """A quota of a client."""

    bucket: Bucket
    value: float


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""All quotas, by entity and key."""


def limit_of(quotas: Quotas, key: QuotaKey, user: str, client_id: str) -> Limit | None:
    """Return the quota that holds for a client; None if it has none.

    client_id: "" for a client without one.  As in Kafka, only quotas of users apply to it.
    """
    for entity, bucket in _levels(user, client_id):
        found = quotas.get(entity)
        if found is not None and (value := found.get(key)) is not None:
            return Limit(bucket, value)
    return None


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Bucket]]:
    """Yield the entities that match a client, the most specific first, each with its bucket."""
    both, of_user = Bucket(user, client_id), Bucket(user, "")
    for name in (user, DEFAULT):
        if client_id:
            yield QuotaEntity(name, client_id), both
            yield QuotaEntity(name, DEFAULT), both
        yield QuotaEntity(name), of_user
    if client_id:
        yield QuotaEntity(client_id=client_id), Bucket("", client_id)
        yield QuotaEntity(client_id=DEFAULT), Bucket("", client_id)


def normal_address(text: str) -> str | None:
    """Return an address in the normal form, for comparison; None if the text is no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
