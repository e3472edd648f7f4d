"""Random ACLs and questions, with few names, so that ACLs apply to most questions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tidegate_coordination.security.acls import (
    ANY_NAME,
    EVERYONE,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
_PRINCIPALS: Final = ("User:a", "User:b", "Other:a")
_HOSTS: Final = ("10.0.0.1", "10.0.0.2")
_NAMES: Final = (
    *("h", "hard", "hardcode", "hardcoded", "a", "ab", "abc", "abcd", "abd", "ac", "b", "ba"),
    *("*", "*a", "é", "éa", "\U0001f600", "\U0001f600a", "!", "z"),
)
_NEVER_STORED: Final = ("Other:*", "10.0.0.0/8", "none")
_OPERATIONS: Final = tuple(each for each in Operation if each >= Operation.ALL)
_USUAL: Final = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)


class Question(NamedTuple):
    """name: None asks for any resource of the type."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str | None


class Case(NamedTuple):
    """A cluster's ACLs, and questions about them."""

    super_users: tuple[str, ...]
    allows_everyone: bool
    acls: tuple[Acl, ...]
    questions: tuple[Question, ...]


def draw(seed: int, questions: int) -> Case:
    """Return the same case for the same seed."""
    rng = Random(f"acls {seed}")
    types = rng.sample(_TYPES, rng.randint(1, 2))
    operations = _USUAL if rng.random() < 0.8 else _OPERATIONS
    denied = rng.choice((0.0, 0.15, 0.5, 0.9))
    count = rng.choice((0, 1, 2, 3, 5, 8, 20))
    acls = (_acl(rng, types, operations, denied) for _ in range(count))
    return Case(
        super_users=tuple(each for each in _PRINCIPALS if rng.random() < 0.05),
        allows_everyone=rng.random() < 0.3,
        acls=tuple(dict.fromkeys(acls)),
        questions=tuple(_question(rng, types, operations) for _ in range(questions)),
    )


def _acl(
    rng: Random, types: Sequence[ResourceType], operations: Sequence[Operation], denied: float
) -> Acl:
    return Acl(
        rng.choice(types),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        ANY_NAME if rng.random() < 0.15 else rng.choice(_NAMES),
        rng.choice((*_PRINCIPALS, EVERYONE, *_NEVER_STORED[:1])),
        rng.choice((ANY_NAME, ANY_NAME, *_HOSTS, *_NEVER_STORED[1:])),
        rng.choice(operations),
        Permission.DENY if rng.random() < denied else Permission.ALLOW,
    )


def _question(
    rng: Random, types: Sequence[ResourceType], operations: Sequence[Operation]
) -> Question:
    name = None if rng.random() < 0.3 else rng.choice(_NAMES)
    return Question(
        rng.choice(_PRINCIPALS),
        rng.choice(_HOSTS),
        rng.choice(operations),
        rng.choice(types),
        name,
    )
