"""Runs `tidegate topic create`, `list`, `describe`, `alter` and `delete`."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegate_coordination.client import topic_calls
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.metadata import Topic
from tidegate_coordination.client.topic_calls import (
    BROKERS_CHOICE,
    Config,
    NewTopic,
    PartitionFacts,
)
from tidegate_runtime.settings_texts import BadSource

from ..asking import agreed, check_json
from ..kafka.cluster import NOT_DONE, pairs, run_client
from ..kafka.deleting import delete_each
from ..kafka.options import KafkaPlace
from ..output.table import aligned, counted, printable


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """The options as typed.  partitions, replicas: None for the cluster's default."""

    topic: str
    partitions: int | None = None
    replicas: int | None = None
    configs: tuple[str, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterOptions:
    """The options as typed."""

    topic: str
    partitions: int | None = None
    configs: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Return whether the options change anything."""
        return bool(self.partitions or self.configs or self.deleted)


def run_create(place: KafkaPlace, options: CreateOptions, *, as_json: bool) -> int:
    """Make a topic; return the exit code."""
    return run_client(place, lambda cluster: create(cluster, options, as_json=as_json))


async def create(cluster: ClassicCluster, options: CreateOptions, *, as_json: bool) -> int:
    """Make a topic; return the exit code; raises as run_client() expects."""
    topic = NewTopic(
        options.topic,
        options.partitions or BROKERS_CHOICE,
        options.replicas or BROKERS_CHOICE,
        pairs("--config", options.configs),
    )
    there = await _partitions_there(cluster, options.topic) if options.if_not_exists else 0
    # Brokers may not know a new topic yet, so the number of partitions comes from the answer.
    count = there or await topic_calls.create(cluster, topic)
    if as_json:
        print(json.dumps({"name": options.topic, "partitions": count, "created": not there}))
    else:
        how = "is there already" if there else "is made"
        many = "" if count is None else f", with {counted(count, 'partition')}"
        print(f"topic {printable(options.topic)} {how}{many}")
    return 0


async def _partitions_there(cluster: ClassicCluster, name: str) -> int:
    """Return how many partitions a topic has; 0 if there is none."""
    await cluster.refresh([name])
    found = cluster.metadata.topics.get(name)
    return len(found.partitions) if found is not None and not found.error_code else 0


def run_list(place: KafkaPlace, *, shows_internal: bool, as_json: bool) -> int:
    """Print the topics; return the exit code."""

    async def work(cluster: ClassicCluster) -> int:
        return await show_all(cluster, shows_internal=shows_internal, as_json=as_json)

    return run_client(place, work)


async def show_all(cluster: ClassicCluster, *, shows_internal: bool, as_json: bool) -> int:
    """Print the topics; return the exit code; raises as run_client() expects."""
    known = (await cluster.refresh(None)).topics
    chosen = [
        known[each] for each in sorted(known) if shows_internal or not known[each].is_internal
    ]
    print(json.dumps([_facts(each) for each in chosen]) if as_json else _list_text(chosen))
    return 0


def _facts(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replicas": _replicas(topic),
        "internal": topic.is_internal,
    }


def _replicas(topic: Topic) -> int:
    return max((len(each.replicas) for each in topic.partitions.values()), default=0)


def _uuid_text(topic_id: bytes | None) -> str:
    """Return an id as Kafka's tools write it; "" for none (before Kafka 2.8)."""
    return urlsafe_b64encode(topic_id or b"").decode().rstrip("=")


def _list_text(topics: Sequence[Topic]) -> str:
    if not topics:
        return "There is no topic."
    cells = [("PARTITIONS", "REPLICAS", "TOPIC")]
    cells += [
        (str(len(each.partitions)), str(_replicas(each)), printable(each.name)) for each in topics
    ]
    return "\n".join(aligned(cells))


def run_describe(place: KafkaPlace, topic: str, *, shows_defaults: bool, as_json: bool) -> int:
    """Print a topic; return the exit code."""

    async def work(cluster: ClassicCluster) -> int:
        return await describe(cluster, topic, shows_defaults=shows_defaults, as_json=as_json)

    return run_client(place, work)


async def describe(
    cluster: ClassicCluster, name: str, *, shows_defaults: bool, as_json: bool
) -> int:
    """Print a topic; return the exit code; raises as run_client() expects."""
    topic = await topic_calls.known_topic(cluster, name)
    partitions = await topic_calls.partition_facts(cluster, topic)
    configs = await topic_calls.topic_configs(cluster, name)
    shown = [each for each in configs if shows_defaults or each.is_own]
    print((_describe_json if as_json else _describe_text)(topic, partitions, shown))
    return 0


def _describe_json(
    topic: Topic, partitions: Sequence[PartitionFacts], configs: Sequence[Config]
) -> str:
    return json.dumps(
        {
            **_facts(topic),
            "topic_id": _uuid_text(topic.topic_id) or None,
            "partitions": [each._asdict() for each in partitions],
            "configs": {each.name: each.value for each in configs},
        }
    )


def _describe_text(
    topic: Topic, partitions: Sequence[PartitionFacts], configs: Sequence[Config]
) -> str:
    lines = [
        f"topic       {printable(topic.name)}",
        *([f"topic id    {_uuid_text(topic.topic_id)}"] if topic.topic_id else []),
        f"partitions  {len(partitions)}",
    ]
    for index, each in enumerate(configs):
        value = "(secret)" if each.value is None else printable(each.value)
        lines.append(f"{'' if index else 'configs':<12}{printable(each.name)}={value}")
    cells = [("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END")]
    cells += [
        (
            str(each.partition),
            str(each.leader),
            ",".join(map(str, each.replicas)),
            ",".join(map(str, each.isr)),
            "?" if each.start is None else str(each.start),
            printable(each.problem) if each.end is None else str(each.end),
        )
        for each in partitions
    ]
    return "\n".join([*lines, "", *aligned(cells)])


def run_alter(place: KafkaPlace, options: AlterOptions, *, as_json: bool) -> int:
    """Change a topic; return the exit code."""
    return run_client(place, lambda cluster: alter(cluster, options, as_json=as_json))


async def alter(cluster: ClassicCluster, options: AlterOptions, *, as_json: bool) -> int:
    """Change a topic; return the exit code; raises as run_client() expects."""
    configs = pairs("--config", options.configs)
    if not options.changes:
        raise BadSource("give --config, --delete-config or --partitions")
    both = sorted(configs.keys() & set(options.deleted))
    if both:
        raise BadSource(f"--config and --delete-config both name {both[0]}")
    done = AlterOptions(options.topic)
    try:
        if configs or options.deleted:
            await topic_calls.alter_configs(cluster, options.topic, configs, options.deleted)
            done = replace(options, partitions=None)
        if options.partitions:
            await topic_calls.add_partitions(cluster, options.topic, options.partitions)
            done = options
    finally:  # the cluster may have changed the configs and refused the partitions
        if done.changes:
            print(_altered_json(done) if as_json else _altered_text(done))
    return 0


def _altered_json(done: AlterOptions) -> str:
    return json.dumps(
        {
            "name": done.topic,
            "set": pairs("--config", done.configs),
            "deleted": done.deleted,
            "partitions": done.partitions,
        }
    )


def _altered_text(done: AlterOptions) -> str:
    configs = pairs("--config", done.configs)
    lines = [f"{printable(name)} is {printable(value)} now" for name, value in configs.items()]
    lines += [f"{printable(name)} has its default now" for name in done.deleted]
    if done.partitions:
        lines.append(f"{printable(done.topic)} has {counted(done.partitions, 'partition')} now")
    return "\n".join(lines)


def run_delete(place: KafkaPlace, topics: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Delete topics; return the exit code."""
    return run_client(place, lambda cluster: delete(cluster, topics, yes=yes, as_json=as_json))


async def delete(
    cluster: ClassicCluster, topics: Sequence[str], *, yes: bool, as_json: bool
) -> int:
    """Delete topics; return the exit code; raises as run_client() expects."""
    check_json(as_json=as_json, asks=not yes)
    names = list(dict.fromkeys(topics))
    for each in names:
        await topic_calls.known_topic(cluster, each)
    which = ", ".join(map(printable, names))
    if not await agreed(f"Delete {which} with all records, for good?", yes=yes):
        return NOT_DONE
    return await delete_each("topic", names, partial(topic_calls.delete, cluster), as_json=as_json)
