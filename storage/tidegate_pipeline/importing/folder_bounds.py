"""The partitions in folders of brokers' logs, and where they begin and end. Blocks briefly.

Several folders may hold replicas of one partition; the one with the highest high watermark is read.
Records above it are not known to be committed, and stay out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate_coordination.client.metadata import Topic as SourceTopic
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.state.topics import Topic

from .log_folders import (
    CLUSTER,
    HIGH_WATERMARKS,
    LOG_STARTS,
    TOPIC_ID,
    BadFolder,
    Place,
    place_of,
    read_checkpoint,
    read_cluster_id,
    read_topic_id,
    segment_bases,
)


class PartitionFolder(NamedTuple):
    """A replica of a partition; its offsets are [first, stop).

    log_start: as the broker noted it; offsets from log_start to first are in tiered storage.
    """

    path: Path
    topic_id: bytes
    first: int
    stop: int
    log_start: int


def partition_folders(paths: Sequence[Path], cluster_id: str) -> dict[Place, PartitionFolder]:
    """Return the partitions in brokers' log folders, each by its most advanced replica.

    cluster_id: the id of the link's source.

    Raises:
      BadFolder: a path is no log folder of a broker of that cluster.
    """
    found: dict[Place, PartitionFolder] = {}
    for path in paths:
        for place, each in _folders_in(path, cluster_id):
            if place not in found or found[place].stop < each.stop:
                found[place] = each
    return found


def _folders_in(path: Path, cluster_id: str) -> Iterator[tuple[Place, PartitionFolder]]:
    if not path.is_dir():
        raise BadFolder(f"{path} is no folder")
    watermarks = _checkpoint(path / HIGH_WATERMARKS)
    if watermarks is None:
        raise BadFolder(f"{path} is no log folder of a Kafka broker: it has no {HIGH_WATERMARKS}")
    _check_cluster(path, cluster_id)
    starts = _checkpoint(path / LOG_STARTS) or {}
    for folder in sorted(path.iterdir()):
        place = place_of(folder.name)
        bases = segment_bases(each.name for each in folder.iterdir()) if folder.is_dir() else []
        if place is not None and bases:
            first = max(bases[0], starts.get(place, 0))
            stop = watermarks.get(place, first)
            topic_id = _topic_id(folder, place, cluster_id)
            yield place, PartitionFolder(folder, topic_id, first, stop, starts.get(place, first))


def _checkpoint(path: Path) -> dict[Place, int] | None:
    text = _text(path)
    return None if text is None else read_checkpoint(text, str(path))


def _check_cluster(path: Path, cluster_id: str) -> None:
    found = read_cluster_id(_text(path / CLUSTER) or "")
    if found and found != cluster_id:
        raise BadFolder(f"{path} is of cluster {found}, and the link's source is {cluster_id}")


def _topic_id(folder: Path, place: Place, cluster_id: str) -> bytes:
    text = _text(folder / TOPIC_ID)
    if text is None:  # of a broker before 2.8
        return topic_id_of(SourceTopic(place[0], None, False, {}), cluster_id)
    return read_topic_id(text, str(folder / TOPIC_ID))


def _text(path: Path) -> str | None:
    """Return a file's text; None if there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise BadFolder(f"{path} cannot be read ({error})") from None


class FolderBounds:
    """See SourceSide."""

    def __init__(self, folders: Mapping[Place, PartitionFolder]) -> None:
        self._folders = folders

    async def bounds(self, topics: Sequence[Topic]) -> Mapping[Place, tuple[int, int] | str]:
        """See SourceSide."""
        places = [(each, index) for each in topics for index in range(len(each.partition_numbers))]
        return {(topic.name, index): self._bounds(topic, index) for topic, index in places}

    def _bounds(self, topic: Topic, index: int) -> tuple[int, int] | str:
        found = self._folders.get((topic.name, index))
        if found is None:
            return "no folder has it"
        if found.topic_id != topic.shown_id:
            return f"{found.path} is of another topic of this name"
        return found.first, found.stop

    def obstacle(self, topic: Topic, index: int, end: int) -> str:
        """See SourceSide."""
        found = self._folders.get((topic.name, index))
        is_begun = found is not None and (end > 0 or found.log_start < found.first)
        if found is None or not is_begun or end >= found.first:
            return ""
        return (
            f"{found.path} begins at offset {found.first}, and the copy ends at {end}: import what"
            " lies between from tiered storage first, or from the brokers"
        )

    async def difference(self, topic: Topic, index: int, epoch_ends: Mapping[int, int]) -> str:
        """Return "": files do not change."""
        return ""
