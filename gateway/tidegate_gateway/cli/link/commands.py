"""Runs `tidegate link add`, `status` and `remove`, from any machine that reaches the log.

A command appends its change to the metadata log itself; the gateways follow it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.client.source_bounds import LATEST, Place, source_offsets
from tidegate_coordination.name_patterns import BadPattern
from tidegate_coordination.rules.migration.mirrors import LinkRefusal, RemoveLink, SetLink
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_runtime.settings_texts import BadSource

from ...migration.mirror.source_topics import TopicPatterns, wanted
from ...migration.mirror.unmirrored import refused_topics
from ...migration.survey.source_features import transaction_version
from ...migration.switch.beyond import beyond_switch
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from .text import (
    Added,
    Copy,
    Noticed,
    added_json,
    added_text,
    list_json,
    list_text,
    removed_json,
    removed_text,
    status_json,
    status_text,
    switches_of,
)


@dataclass(frozen=True, slots=True)
class NewLink:
    """The options as typed."""

    name: str
    bootstrap_servers: str
    topics: tuple[str, ...]
    client_properties: Path | None
    replaces: bool
    forwards: bool | None = None
    groups: tuple[str, ...] | None = None
    transactional_ids: tuple[str, ...] | None = None


def run_add(cluster: ClusterOptions, new: NewLink, *, as_json: bool) -> int:
    """Make or change a link; return the exit code."""

    async def work() -> int:
        try:
            TopicPatterns(new.topics)
        except BadPattern as error:
            raise BadSource(f"--topics: {error}") from None
        async with (
            opened_source(new.bootstrap_servers, new.client_properties) as source,
            opened_cluster(cluster) as coordinator,
        ):
            metadata = await source.refresh()
            if metadata.cluster_id is None:
                raise BadSource("the source has no cluster id: it is older than Kafka 0.10.1")
            before = coordinator.state.links.by_name.get(new.name)
            link = _as_before(new, metadata.cluster_id, before)
            if link.transactional_ids:
                link = replace(link, transaction_version=await _transaction_version(source))
            proposal = SetLink(
                link.name,
                link.cluster_id,
                link.bootstrap_servers,
                link.topics,
                new.replaces,
                link.forwards,
                link.groups,
                link.transactional_ids,
                link.transaction_version,
            )
            refusal = await coordinator.propose(proposal)
            refused: dict[str, str] = {}
            if refusal is None:
                refused = await refused_topics(source, link, coordinator.state)
            topics = [each.name for each in wanted(link, metadata)]
            added = Added(link, topics, refusal, refused)
        if refusal is not None and not as_json:
            return _refused(new.name, refusal)
        print(added_json(added) if as_json else added_text(added, new.client_properties))
        return NOT_DONE if refusal is not None else 0

    return run_told(work)


def _as_before(new: NewLink, cluster_id: str, before: Link | None) -> Link:
    """Return the link; options that were not given stay as they were before."""
    forwards, groups = new.forwards, new.groups
    if forwards is None:
        forwards = before is not None and before.forwards
    if groups is None:
        groups = before.groups if before is not None else ()
    ids = new.transactional_ids
    if ids is None:
        ids = before.transactional_ids if before is not None else ()
    return Link(new.name, cluster_id, new.bootstrap_servers, new.topics, forwards, groups, ids)


async def _transaction_version(source: ClassicCluster) -> int:
    try:
        found = await transaction_version(source)
    except ClassicError as error:
        raise BadSource(str(error)) from None
    if found is None:
        raise BadSource("the source does not show transactional ids: it is older than Kafka 3.0")
    return found


def _refused(name: str, refusal: LinkRefusal) -> int:
    print(f"tidegate: link {name}: {refusal.value}", file=sys.stderr)
    return NOT_DONE


def run_list(cluster: ClusterOptions, *, as_json: bool) -> int:
    """Print the links; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            state = coordinator.state
            rows = [
                (each, sum(1 for _ in state.links.topics_of(name)))
                for name, each in sorted(state.links.by_name.items())
            ]
        print(list_json(rows) if as_json else list_text(rows))
        return 0

    return run_told(work)


def run_status(cluster: ClusterOptions, name: str, file: Path | None, *, as_json: bool) -> int:
    """Print how far each topic is; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            link = known_link(coordinator.state, name)
            ends: Mapping[Place, int | str] = {}
            problem, noticed = "", Noticed()
            try:
                async with opened_source(link.bootstrap_servers, file) as source:
                    places = list(_places(coordinator.state, name))
                    refused = await refused_topics(source, link, coordinator.state)
                    ends = await source_offsets(source, places, LATEST)
                    noticed = Noticed(refused, await beyond_switch(source, coordinator.state, name))
            except BadSource as error:
                problem = str(error)
            await coordinator.catch_up()
            copies = _copies(coordinator.state, name, ends)
            switches = switches_of(coordinator.state, name)
            moved = sorted(coordinator.state.link_groups.moved.get(name, ()))
        shown = status_json if as_json else status_text
        print(shown(link, copies, switches, moved, problem, noticed))
        return NOT_DONE if problem or noticed.is_trouble else 0

    return run_told(work)


def known_link(state: ClusterState, name: str) -> Link:
    """Return a link by its name.

    Raises:
      BadSource: no link has this name.
    """
    link = state.links.by_name.get(name)
    if link is None:
        raise BadSource(f"there is no link {name!r}; see `tidegate link status`")
    return link


def _places(state: ClusterState, name: str) -> list[Place]:
    return [
        (topic.name, index)
        for topic in state.links.topics_of(name)
        for index in range(len(topic.partition_numbers))
    ]


def _copies(state: ClusterState, name: str, ends: Mapping[Place, int | str]) -> list[Copy]:
    copies: list[Copy] = []
    for topic in sorted(state.links.topics_of(name), key=lambda each: each.name):
        partitions = [state.partitions[number] for number in topic.partition_numbers]
        copied = sum(each.next_offset - each.log_start for each in partitions)
        behind, problems = 0, set[str]()
        for index, partition in enumerate(partitions):
            end = ends.get((topic.name, index))
            if isinstance(end, int):
                behind += max(end - partition.next_offset, 0)
            elif end is not None:
                problems.add(end)
        known = bool(ends) and not problems
        size = sum(each.size_bytes for each in partitions)
        copies.append(
            Copy(
                topic.name,
                len(partitions),
                size,
                copied,
                behind if known else None,
                "; ".join(sorted(problems)),
            )
        )
    return copies


def run_remove(
    cluster: ClusterOptions, name: str, *, deletes: bool, yes: bool, as_json: bool
) -> int:
    """Remove a link, and delete the copies if wanted; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not yes)
        async with opened_cluster(cluster) as coordinator:
            known_link(coordinator.state, name)
            count = sum(1 for _ in coordinator.state.links.topics_of(name))
            question = f"Remove link {name}, and delete its {count} topics here?"
            if not await agreed(question, yes=yes):
                return NOT_DONE
            answer = await coordinator.propose(RemoveLink(name, deletes))
        if isinstance(answer, LinkRefusal):
            return _refused(name, answer)
        print(removed_json(name, answer) if as_json else removed_text(name, answer))
        return 0

    return run_told(work)
