"""The parts of links: mirrors, forwarding to sources, and fences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES
from tidegate_coordination.state.migration.switches import Fence
from tidegate_runtime.http.pages import Answer, json_answer
from tidegate_runtime.settings_texts import SettingsError

from ..feature import Feature, Ground, Task
from ..migration.fences import FenceWatch
from ..migration.forward.groups import GroupForwards
from ..migration.forward.source_ends import SourceEnds
from ..migration.forward.transactions import TransactionForwards
from ..migration.forward.unit_fences import GroupFences
from ..migration.forward.writes import Forwards
from ..migration.links import Links, LinkSettings
from ..migration.metrics import link_metrics
from ..migration.report import links_report
from ..migration.switch.topic_fences import TopicFences
from ..settings.broker_settings import BrokerSettings
from .reads import ReadParts
from .writes import WriteParts


@dataclass(frozen=True, slots=True)
class LinkParts:
    """forwards: forwards writes.  group_forwards, transaction_forwards: forward other requests."""

    links: Links
    forwards: Forwards
    source_ends: SourceEnds
    group_forwards: GroupForwards
    transaction_forwards: TransactionForwards
    feature: Feature


def link_parts(ground: Ground, reads: ReadParts, writes: WriteParts) -> LinkParts:
    """Make the parts."""
    coordinator, environment = ground.coordinator, ground.environment
    links = Links(
        coordinator,
        writes.writer,
        reads.reader,
        link_settings(ground.settings),
        environment.source_dial,
        blocking=environment.pools.files,
        pool=environment.pools.records,
        rng=environment.rng,
        upkeep=ground.upkeep,
        without_store=lambda: writes.store_watch.avoided,
    )
    forwards = Forwards(coordinator, links, ground.settings.int("link.forward.bytes.max"))
    ends = SourceEnds(coordinator.state, links.running)
    groups = GroupForwards(coordinator, links.running)
    transactions = TransactionForwards(coordinator, links.running)

    async def drained(fence: Fence) -> None:
        """Wait until all batches to a fence's topics have answers; no new ones begin."""
        if fence.is_back:
            await writes.writer.drain()
        else:
            await forwards.drained(fence.limits.keys())

    kinds = (
        TopicFences(coordinator, drained),
        GroupFences(coordinator, groups, transactions, forwards),
    )
    fences = FenceWatch(coordinator, kinds, links.fence_ages, links.on_fence)
    tasks = (
        Task("mirror topics", links.run),
        Task("forward writes", forwards.run),
        Task("reach fences", fences.run),
    )

    async def page() -> Answer:
        return json_answer(links_report(links, coordinator.state))

    feature = Feature(
        "links",
        tasks=tasks,
        metrics=partial(link_metrics, coordinator.state, links, forwards, groups, transactions),
        pages={"/v1/links": page},
    )
    return LinkParts(links, forwards, ends, groups, transactions, feature)


def link_settings(settings: BrokerSettings) -> LinkSettings:
    """Return the settings of links.

    Raises:
      SettingsError: link.client.properties or link.proxy.properties is not NAME=FILE,...
    """
    return LinkSettings(
        _files_by_link(settings, "link.client.properties"),
        _files_by_link(settings, "link.proxy.properties"),
        held_bytes=settings.int("link.held.bytes.max"),
        wait_seconds=settings.int("link.fetch.wait.ms") / 1000,
        sync_seconds=settings.int("link.topics.interval.ms") / 1000,
        group_lines=settings.int("link.group.requests.max"),
        decompressed_bytes=_mirrored_bytes(settings),
    )


def _mirrored_bytes(settings: BrokerSettings) -> int | None:
    """Return the limit of a decompressed mirrored batch; None if records are not checked."""
    if settings.text("record.validation") != "full":
        return None
    return settings.int("record.decompressed.max.bytes") or DECOMPRESSED_BYTES


def _files_by_link(settings: BrokerSettings, name: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for item in settings.items(name):
        link, equals, path = item.partition("=")
        if not equals or not link.strip() or not path.strip():
            raise SettingsError(f"{name}: {item!r} is not NAME=FILE")
        files[link.strip()] = Path(path.strip())
    return files
