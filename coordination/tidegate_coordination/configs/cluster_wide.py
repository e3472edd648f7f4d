"""Static settings of gateways that apply to the whole cluster.

Most decide which records are removed, and how batches are validated, by any gateway or pipeline. If
the values of gateways differ, the careful value holds: the one that removes or refuses least.
Removed records do not come back; records kept too long can be removed later (decision 23).
quota.scope neither removes nor refuses records.  It is listed here because all gateways must know
which gateways share quotas.  `cluster` holds for all if one gateway has it (decision 36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final

from .broker_configs import BROKER_CONFIGS
from .definition import Definition, Value, text_of
from .effective import STAND_INS
from .topic_configs import TOPIC_CONFIGS
from .validation import InvalidConfig, parse

_Rank = Callable[[Any], Any]

OF_TOPICS: Final[dict[str, Definition]] = {
    each.synonym: each for each in TOPIC_CONFIGS.values() if each.meaningful and each.synonym
}
"""Broker config -> the topic config it is the default of."""

TIMES: Final[dict[str, Definition]] = {
    name: replace(BROKER_CONFIGS[name], synonym=name)
    for name in (
        "object.delete.grace.ms",
        "offsets.retention.minutes",
        "producer.id.expiration.ms",
        "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
    )
}
"""How long things are kept, or may stay open, that are no topic's."""

QUOTA_SCOPE: Final = "quota.scope"

CLUSTER_WIDE: Final = frozenset(
    {
        *OF_TOPICS,
        *TIMES,
        QUOTA_SCOPE,
        *(other for name in OF_TOPICS for other, _ in STAND_INS.get(name, ())),
    }
)


def _no_limit_first(value: int) -> float:
    return inf if value < 0 else value


_RANKS: Final[dict[str, _Rank]] = {
    "compression.type": lambda value: (value == "producer", value),
    "message.timestamp.type": lambda value: value == "CreateTime",
    "retention.bytes": _no_limit_first,
    "retention.ms": _no_limit_first,
}
"""Topic config -> what is largest for the careful value; where it is not the value itself."""


def clusters_own(static: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are the cluster's, as gateways show them, without wrong ones."""
    found: dict[str, str] = {}
    for name in sorted(CLUSTER_WIDE & static.keys()):
        try:
            found[name] = text_of(parse(BROKER_CONFIGS[name], static[name]))
        except InvalidConfig:
            continue
    return found


def most_careful(definition: Definition, texts: Iterable[str]) -> str:
    """Return the value that removes or refuses least, of at least one that passes the checks."""
    values = [parse(definition, text) for text in texts]
    if definition.name == "cleanup.policy":
        return text_of(_in_all(values))
    return text_of(max(values, key=_RANKS.get(definition.name)))


def _in_all(policies: list[Value]) -> tuple[str, ...]:
    """Return the cleanup policies that all lists contain, in the order of the first list."""
    lists = [each for each in policies if isinstance(each, tuple)]
    return tuple(each for each in dict.fromkeys(lists[0]) if all(each in other for other in lists))
