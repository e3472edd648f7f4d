"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.configs import (
    ConfigRefusal,
    ConfigRefused,
    ResourceChange,
    ResourceType,
    SetConfigs,
)

from ...topics.looks import Look, is_config_changed

TOPIC = ResourceType.TOPIC.value
RESOURCES_PER_PROPOSAL = 8
"""So many resources fit in a log entry even if each sets all its configs."""
REPEATED: Final = ConfigRefused(
    ConfigRefusal.INVALID_REQUEST, "Each resource must appear at most once."
)


async def set_configs(
    coordinator: Coordinator, resources: Sequence[ResourceChange], *, validate_only: bool
) -> list[ConfigRefused | None]:
    """Change resources; return a result for each, in order.  A repeated resource is refused.

    Raises:
      CoordinatorUnavailable: the outcome is unknown.
    """
    twice = repeated(resources)
    wanted = [each for each in resources if _key(each) not in twice]
    answers = iter(await _propose(coordinator, wanted, validate_only=validate_only))
    return [REPEATED if _key(each) in twice else next(answers) for each in resources]


def repeated(resources: Sequence[ResourceChange]) -> set[tuple[int, str]]:
    """Return type and name of the resources that a request names more than once."""
    counts = Counter(map(_key, resources))
    return {key for key, count in counts.items() if count > 1}


def _key(resource: ResourceChange) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


async def _propose(
    coordinator: Coordinator, resources: Sequence[ResourceChange], *, validate_only: bool
) -> list[ConfigRefused | None]:
    answers: list[ConfigRefused | None] = []
    look = Look(coordinator)
    await look.take(each.resource_name for each in resources)

    def proposal(part: Sequence[ResourceChange], seen: int) -> SetConfigs:
        named = (each.resource_name for each in part if each.resource_type == TOPIC)
        return SetConfigs(part, validate_only, seen, look.topic_ids(named))

    for part in _parts(resources):
        try:
            answers += await look.propose(part, proposal, is_config_changed)
        except ProposalFailed as failure:
            text = f"Nothing was changed: {failure}"
            answers += [ConfigRefused(ConfigRefusal.INVALID_REQUEST, text)] * len(part)
    return answers


def _parts(resources: Sequence[ResourceChange]) -> Iterator[Sequence[ResourceChange]]:
    for first in range(0, len(resources), RESOURCES_PER_PROPOSAL):
        yield resources[first : first + RESOURCES_PER_PROPOSAL]
