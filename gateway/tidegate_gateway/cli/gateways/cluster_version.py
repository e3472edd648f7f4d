"""`tidegate gateway version`: the cluster's metadata.version, and the step to a newer one.

It reads and writes the metadata log, as `drain` does, and so needs none of Kafka's tools.  Decision
18 has the rules.  Kafka clients raise the version by UpdateFeatures
(requests/cluster/update_features.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, NEWEST
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.state.cluster import ClusterState

from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from .gateways import say_now


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options as typed.  raise_to: None to only show the version."""

    raise_to: int | None = None
    only_checks: bool = False
    yes: bool = False
    as_json: bool = False


def run_version(cluster: ClusterOptions, options: VersionOptions) -> int:
    """Show the version, or raise it; return the exit code."""

    async def work() -> int:
        asks = options.raise_to is not None and not (options.only_checks or options.yes)
        check_json(as_json=options.as_json, asks=asks)
        async with opened_cluster(cluster) as coordinator:
            return await version(coordinator, options)
        raise AssertionError

    return run_told(work)


async def version(
    coordinator: Coordinator, options: VersionOptions, say: Callable[[str], None] = say_now
) -> int:
    """Show the version, or raise it; return the exit code.

    say: called with each line of output.

    Raises:
      Exception: see refusals_to_start.py.
    """
    level, state = options.raise_to, coordinator.state
    if level is not None and level != state.metadata_version:
        if refusal := await coordinator.propose(SetMetadataVersion(level, only_checks=True)):
            return _refused(refusal)
        if not options.only_checks:
            question = f"Raise {FEATURE_NAME} to {level}, for good? Older releases cannot read it."
            if not await agreed(question, yes=options.yes):
                return _refused("Nothing was changed.")
            if refusal := await coordinator.propose(SetMetadataVersion(level)):
                return _refused(refusal)
    if options.as_json:
        facts = {"metadata_version": state.metadata_version, "readable": readable(state)}
        say(json.dumps(facts))
    elif level is not None and level != state.metadata_version:
        say(f"{FEATURE_NAME} is {state.metadata_version}, and can be raised to {level}.")
    else:
        say(text_of(state))
    return 0


def _refused(why: str) -> int:
    print(f"tidegate: {why}", file=sys.stderr)
    return NOT_DONE


def readable(state: ClusterState) -> int:
    """Return the highest version that this release and all running gateways and pipelines read."""
    return min([NEWEST, *(each.highest_version for each in state.gateways.live.values())])


def text_of(state: ClusterState) -> str:
    """Return the version for a person, and how to raise it."""
    present, highest = state.metadata_version, readable(state)
    if highest <= present:
        return f"{FEATURE_NAME} is {present}, the highest that all gateways can read."
    raising = f"`tidegate gateway version --raise {highest}` raises it, for good"
    return f"{FEATURE_NAME} is {present}. All gateways can read {highest}: {raising}."
