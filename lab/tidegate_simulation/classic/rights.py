"""Which operations a principal is denied; everything else is allowed.  Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

ANYTHING: Final = "*"
ANONYMOUS: Final = "User:ANONYMOUS"

READ: Final = "READ"
WRITE: Final = "WRITE"
CREATE: Final = "CREATE"
DELETE: Final = "DELETE"
ALTER: Final = "ALTER"
DESCRIBE: Final = "DESCRIBE"
CLUSTER_ACTION: Final = "CLUSTER_ACTION"
DESCRIBE_CONFIGS: Final = "DESCRIBE_CONFIGS"
ALTER_CONFIGS: Final = "ALTER_CONFIGS"
IDEMPOTENT_WRITE: Final = "IDEMPOTENT_WRITE"

TOPIC: Final = "topic"
GROUP: Final = "group"
CLUSTER: Final = "cluster"
TRANSACTIONAL_ID: Final = "transactional id"

_CODES: Final = {
    READ: 3,
    WRITE: 4,
    CREATE: 5,
    DELETE: 6,
    ALTER: 7,
    DESCRIBE: 8,
    CLUSTER_ACTION: 9,
    DESCRIBE_CONFIGS: 10,
    ALTER_CONFIGS: 11,
    IDEMPOTENT_WRITE: 12,
}
_OF_A_RESOURCE: Final = {
    TOPIC: (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (
        CREATE,
        ALTER,
        DESCRIBE,
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
    ),
    GROUP: (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
}


class Denial(NamedTuple):
    """A DENY entry; ANYTHING stands for every name, or every principal."""

    operation: str
    resource: str
    name: str = ANYTHING
    principal: str = ANYTHING


class Rights:
    """denied: the DENY entries, which callers may add and remove at any time."""

    def __init__(self) -> None:
        self.denied: set[Denial] = set()

    def allows(self, principal: str, operation: str, resource: str, name: str = ANYTHING) -> bool:
        """Return whether no entry denies it."""
        return not any(
            Denial(operation, resource, each_name, each_principal) in self.denied
            for each_name in (name, ANYTHING)
            for each_principal in (principal, ANYTHING)
        )

    def operations(self, principal: str, resource: str, name: str = ANYTHING) -> int:
        """Return the allowed operations as the bits of KIP-430."""
        return sum(
            1 << _CODES[each]
            for each in _OF_A_RESOURCE[resource]
            if self.allows(principal, each, resource, name)
        )
