"""The sources of an import, as `tidegate pipeline import` opens them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import AnotherCluster, ClassicError
from tidegate_coordination.client.opened_source import opened_source, properties_of
from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.tls import with_texts
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ..importing.broker_bounds import BrokerBounds
from ..importing.broker_reader import BrokerOrigin
from ..importing.folder_bounds import FolderBounds, PartitionFolder, partition_folders
from ..importing.folder_reader import FolderOrigin
from ..importing.log_folders import BadFolder, Place
from ..importing.parts import SourceSide
from ..importing.readers import Origin
from .options import INSTALL


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options as they were typed.  checks_records: whether records are checked."""

    link: str
    topics: tuple[str, ...]
    client_properties: Path | None
    logs: tuple[Path, ...] = ()
    tier: str | None = None
    tier_prefix: str = ""
    tier_keys: tuple[str, ...] = ()
    checks_records: bool = True


@asynccontextmanager
async def opened_side(
    link: Link, state: ClusterState, wanted: ImportOptions
) -> AsyncGenerator[tuple[SourceSide, Origin], None]:
    """Open the source, for the driver and for tasks.

    Raises:
      BadSource: it cannot be used.
    """
    if wanted.logs:
        folders = _folders(wanted.logs, link)
        paths = {place: each.path for place, each in folders.items()}
        yield FolderBounds(folders), FolderOrigin(paths)
        return
    if wanted.tier is not None:
        topics = list(state.links.topics_of(link.name))
        yield await _tier(wanted.tier, topics, wanted)
        return
    properties = properties_of(link.bootstrap_servers, wanted.client_properties)
    async with opened_source(link.bootstrap_servers, wanted.client_properties) as cluster:
        _check_cluster(cluster, link)
        origin = BrokerOrigin(_movable(properties), link.cluster_id)
        yield BrokerBounds(cluster, link.cluster_id), origin


def _folders(paths: Sequence[Path], link: Link) -> dict[Place, PartitionFolder]:
    try:
        return partition_folders([each.absolute() for each in paths], link.cluster_id)
    except BadFolder as error:
        raise BadSource(f"--logs: {error}") from None


def _movable(properties: ClientProperties) -> ClientProperties:
    try:
        return with_texts(properties)
    except ClassicError as error:
        raise BadSource(str(error)) from None


async def _tier(
    url: str, topics: Sequence[Topic], wanted: ImportOptions
) -> tuple[SourceSide, Origin]:
    if find_spec("cryptography") is None:
        raise BadSource(f"--tier: cryptography is not installed ({INSTALL})")
    from .tier_source import opened_tier

    return await opened_tier(url, wanted.tier_prefix, topics, wanted.tier_keys)


def _check_cluster(cluster: ClassicCluster, link: Link) -> None:
    found = cluster.metadata.cluster_id
    if found != link.cluster_id:
        raise AnotherCluster(
            f"the brokers at {link.bootstrap_servers} belong to cluster {found}, and the link is to"
            f" {link.cluster_id}."
        )
