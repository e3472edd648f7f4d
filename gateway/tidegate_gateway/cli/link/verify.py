"""Runs `tidegate link verify`: reads copies and source, and compares them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ...migration.mirror.comparison import Comparison
from ...migration.mirror.unmirrored import refused_topics
from ...migration.mirror.verifying import Sides
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..output.bar import BytesBar
from ..output.table import aligned, printable
from .commands import known_link
from .text import refused_lines

_SHOWN: Final = 50
CLEANUP_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options as typed."""

    name: str
    topics: tuple[str, ...]
    by_record: bool
    gateway: str | None
    client_properties: Path | None


class Verified(NamedTuple):
    """A partition and its comparison."""

    topic: str
    partition: int
    comparison: Comparison


def run_verify(cluster: ClusterOptions, options: VerifyOptions, *, as_json: bool) -> int:
    """Compare, and print what differs; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            state = coordinator.state
            link = known_link(state, options.name)
            gateway = options.gateway or any_gateway(state)
            async with opened_source(link.bootstrap_servers, options.client_properties) as source:
                refused = await refused_topics(source, link, state, options.topics)
            await coordinator.catch_up()
            topics = _topics(state, options, refused)
            size = sum(state.partitions[n].size_bytes for t in topics for n in t.partition_numbers)
        async with (
            opened_source(link.bootstrap_servers, options.client_properties) as source,
            opened_source(gateway, None) as copy,
        ):
            with BytesBar(f"comparing {len(topics)} topics", size, is_shown=not as_json) as bar:
                seen = await _compare(source, copy, topics, options, bar)
        if as_json:
            print(verified_json(seen, refused))
        else:
            compacted = {
                each.name for each in topics if "compact" in each.configs.get(CLEANUP_POLICY, "")
            }
            print(verified_text(seen, refused, compacted, by_record=options.by_record))
        is_equal = not any(each.comparison.difference for each in seen)
        return 0 if is_equal and not refused else NOT_DONE

    return run_told(work)


def _topics(state: ClusterState, options: VerifyOptions, refused: Mapping[str, str]) -> list[Topic]:
    mirrored = {each.name: each for each in state.links.topics_of(options.name)}
    for name in options.topics:
        if name not in mirrored:
            why = f": {refused[name]}" if name in refused else ""
            raise BadSource(f"link {options.name} mirrors no topic {name}{why}")
    return [mirrored[name] for name in sorted(options.topics or mirrored)]


def any_gateway(state: ClusterState) -> str:
    """Return the address of a running gateway.

    Raises:
      BadSource: no gateway runs.
    """
    for gateway in state.gateways.brokers():
        for endpoint in gateway.endpoints:
            return f"{endpoint.host}:{endpoint.port}"
    raise BadSource("no gateway runs, and one is needed")


async def _compare(
    source: ClassicCluster,
    copy: ClassicCluster,
    topics: Sequence[Topic],
    options: VerifyOptions,
    bar: BytesBar,
) -> list[Verified]:
    names = {each.name for each in topics}
    try:
        for each in (source, copy):
            if names:
                await each.refresh(names)
    except ClassicError as error:
        raise BadSource(str(error)) from None
    places = [(each.name, at) for each in topics for at in range(len(each.partition_numbers))]
    found = await Sides(source, copy, options.by_record, bar.add).compared(places)
    return [Verified(*place, each) for place, each in zip(places, found, strict=True)]


def verified_text(
    seen: Sequence[Verified],
    refused: Mapping[str, str],
    compacted: Collection[str] = (),
    *,
    by_record: bool,
) -> str:
    """Return a text about the compared topics, their differences, and the topics that are not here.

    refused: see refused_topics.  compacted: topics that the source compacts.
    """
    different = [each for each in seen if each.comparison.difference]
    items = sum(each.comparison.items for each in seen)
    what = "records" if by_record else "batches"
    lines = [f"{len(seen)} partitions compared: {items} {what} are equal."]
    if not seen:
        lines = ["0 partitions compared: the link mirrors no topic now."]
    lines += refused_lines(refused)
    if not different:
        return "\n".join(lines)
    lines.append(f"{len(different)} partitions differ:")
    cells = [
        (f"  {printable(each.topic)}-{each.partition}", each.comparison.difference)
        for each in different[:_SHOWN]
    ]
    lines += aligned(cells)
    if len(different) > _SHOWN:
        lines.append(f"  and {len(different) - _SHOWN} more")
    cleaned = sorted({each.topic for each in different} & set(compacted))
    if cleaned:
        shown = ", ".join(map(printable, cleaned[:_SHOWN]))
        lines.append(
            f"The source compacts {shown}: records that it has removed since the copy differ, and"
            " are no fault."
        )
    return "\n".join(lines)


def verified_json(seen: Sequence[Verified], refused: Mapping[str, str]) -> str:
    """Return the same for scripts."""
    absent = [
        {
            "topic": name,
            "partition": None,
            "start": None,
            "end": None,
            "equal": 0,
            "difference": f"not mirrored: {text}",
        }
        for name, text in sorted(refused.items())
    ]
    return json.dumps(
        absent
        + [
            {
                "topic": each.topic,
                "partition": each.partition,
                "start": each.comparison.start,
                "end": each.comparison.end,
                "equal": each.comparison.items,
                "difference": each.comparison.difference or None,
            }
            for each in seen
        ]
    )
