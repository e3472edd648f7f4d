"""The operations that a client may do with a resource, as Kafka's bit sets (KIP-430): a bit for
each operation's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate_coordination.security.acls import Operation

NOT_ASKED: Final = -(2**31)
"""The answer to clients that did not ask, and to versions without the field."""

OF_TOPIC: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_GROUP: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_CLUSTER: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


def bits(operations: Iterable[Operation]) -> int:
    """Return a bit set."""
    return sum(1 << each for each in operations)


ALL_ON_TOPIC: Final = bits(OF_TOPIC)
ALL_ON_GROUP: Final = bits(OF_GROUP)
ALL_ON_CLUSTER: Final = bits(OF_CLUSTER)
