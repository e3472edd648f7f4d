"""Examines a source before it is linked: what would be mirrored, and what prevents it.

Every request only reads; nothing changes at the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError, Refused
from tidegate_coordination.client.metadata import Topic, topic_id_of
from tidegate_coordination.client.source_bounds import EARLIEST, LATEST, Place, source_offsets
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import collision_key
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

from ..carry.acl_plan import MissingAcls
from ..carry.source_security import NotShown, source_acls
from ..mirror.source_topics import wanted
from ..mirror.topic_sync import configs_of
from ..switch.source_fence import FENCED_LIMIT, set_limits

_NO_SESSION: Final = -1
_PROBE_BYTES: Final = 1024
ACLS: Final = "ACLs of the topics are here"
SWITCHABLE: Final = "topics can be fenced for a switch"
NO_ACLS: Final = "the source has no authorizer, so it has no ACLs"
"""The texts of findings() for a source with an authorizer, and for one without."""


class Finding(NamedTuple):
    """The result of one check.

    problem: "" if the requirement is met.  warning: advice before clients come; "" for none.
    """

    what: str
    problem: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic of the source that the link's patterns match.

    offsets: between start and end, of all partitions; None if the source does not say.  size_bytes:
    of the leaders' files; None if the source does not say.  obstacle: why the topic cannot be
    mirrored; "" if it can.  is_mirrored: the link mirrors it already.  missing_acls: how many ACLs
    of the source apply to it and are not here; None if the source does not say.
    """

    name: str
    partitions: int
    offsets: int | None
    size_bytes: int | None
    obstacle: str
    is_mirrored: bool
    missing_acls: int | None = None


async def findings(source: ClassicCluster, link: Link, state: ClusterState) -> list[Finding]:
    """Return the requirements of a link to the source, and whether the source meets them."""
    try:
        metadata = await source.refresh()
    except ClassicError as error:
        return [Finding("metadata of the source", str(error))]
    found = [Finding(f"cluster {metadata.cluster_id}, {len(metadata.brokers)} brokers")]
    if metadata.cluster_id == state.cluster_id:
        found[0] = found[0]._replace(problem="this is the cluster itself")
    found += [await _reached(source, node_id) for node_id in sorted(metadata.brokers)]
    topics = wanted(link, metadata)
    found.append(Finding(f"{len(topics)} topics match the patterns {', '.join(link.topics)}"))
    if link.topics and not topics:
        found[-1] = found[-1]._replace(
            problem="no topic matches: check the patterns, and the right to describe topics"
        )
    found += await _rights(source, topics)
    found.append(Finding(SWITCHABLE, warning=await _unswitchable(source, topics)))
    found.append(await _acls(source, topics, state))
    obstacles = {each.name: obstacle_of(state, link, each) for each in topics}
    found += [Finding(f"topic {name}", text) for name, text in obstacles.items() if text]
    return found


async def _reached(source: ClassicCluster, node_id: int) -> Finding:
    broker = source.metadata.brokers[node_id]
    what = f"broker {node_id} at {broker.address}"
    try:
        connection = await source.connection(node_id)
        return Finding(f"{what}, Fetch version {connection.version('Fetch')}")
    except ClassicError as error:
        return Finding(what, str(error))


async def _rights(source: ClassicCluster, topics: Sequence[Topic]) -> list[Finding]:
    names = [each.name for each in topics]
    try:
        configs = await configs_of(source, names)
        unseen = [each for each in names if each not in configs]
        text = f"no right to DESCRIBE_CONFIGS of {_some(unseen)}" if unseen else ""
    except ClassicError as error:
        text = str(error)
    found = [Finding("configs of the topics can be read", text)]
    refused = [f"{each.name} ({text})" for each in topics if (text := await _unread(source, each))]
    problem = f"READ fails for {_some(refused)}" if refused else ""
    found.append(Finding("records of the topics can be read", problem))
    return found


async def _unswitchable(source: ClassicCluster, topics: Sequence[Topic]) -> str:
    """Return why the topics cannot be switched, by a dry run; "" if they can."""
    names = [each.name for each in topics]
    try:
        await set_limits(source, dict.fromkeys(names, FENCED_LIMIT), is_trial=True)
    except ClassicError as error:
        return f"switches need ALTER_CONFIGS of the topics: {error}"
    return ""


async def _acls(source: ClassicCluster, topics: Sequence[Topic], state: ClusterState) -> Finding:
    try:
        theirs = await source_acls(source)
    except NotShown as error:
        return Finding(ACLS, warning=f"not known: {error}")
    if theirs is None:
        return Finding(NO_ACLS)
    missing = MissingAcls(theirs, state.acls)
    lacking = missing.topics_of(each.name for each in topics)
    text = f"not all of {_some(lacking)}; `tidegate link acls` adds them" if lacking else ""
    return Finding(ACLS, warning=text)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


async def _unread(source: ClassicCluster, topic: Topic) -> str:
    """Return why records of a topic cannot be fetched; "" if they can."""
    if not topic.partitions:
        return ""
    index = min(topic.partitions)
    partition = FetchPartition(index, fetch_offset=0, partition_max_bytes=_PROBE_BYTES)
    request = FetchRequest(
        max_bytes=_PROBE_BYTES,
        session_epoch=_NO_SESSION,
        topics=[FetchTopic(topic.name, topic.topic_id or bytes(16), [partition])],
    )
    try:
        response: FetchResponse = await source.call_leader(topic.name, index, "Fetch", request)
    except ClassicError as error:
        return str(error)
    codes = [each.error_code for found in response.responses for each in found.partitions]
    expected = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
    return next((str(Refused("Fetch", code)) for code in codes if code not in expected), "")


def obstacle_of(state: ClusterState, link: Link, topic: Topic) -> str:
    """Return why a link cannot mirror a topic of the source; "" if it can, or does."""
    present = state.topics.by_shown_id.get(topic_id_of(topic, link.cluster_id))
    if present is not None and present.link == link.name:
        return ""
    if present is not None:
        return f"link {present.link} mirrors it" if present.link else "its topic id is in use here"
    other = state.topics.by_collision_key.get(collision_key(topic.name))
    return f"the name is taken here: by topic {other.name}" if other is not None else ""


async def candidates_of(source: ClassicCluster, link: Link, state: ClusterState) -> list[Candidate]:
    """Return the topics that a link mirrors or would mirror, with sizes and missing ACLs.

    Raises:
      ClassicError: the source does not answer.
    """
    topics = wanted(link, await source.refresh())
    places = [(each.name, index) for each in topics for index in each.partitions]
    starts = await source_offsets(source, places, EARLIEST)
    ends = await source_offsets(source, places, LATEST)
    sizes = await _sizes(source)
    missing = await missing_acls(source, state)
    found: list[Candidate] = []
    for topic in topics:
        own = [(topic.name, index) for index in topic.partitions]
        present = state.topics.by_shown_id.get(topic_id_of(topic, link.cluster_id))
        found.append(
            Candidate(
                topic.name,
                len(own),
                _offsets(own, starts, ends),
                sum(sizes.get(each, 0) for each in own) if sizes is not None else None,
                obstacle_of(state, link, topic),
                present is not None and present.link == link.name,
                missing.count(topic.name) if missing is not None else None,
            )
        )
    return found


async def missing_acls(source: ClassicCluster, state: ClusterState) -> MissingAcls | None:
    """Return the ACLs of a source that are not here; None if the source does not show its ACLs."""
    try:
        return MissingAcls(await source_acls(source) or (), state.acls)
    except NotShown:
        return None


def _offsets(
    places: Sequence[Place], starts: Mapping[Place, int | str], ends: Mapping[Place, int | str]
) -> int | None:
    total = 0
    for each in places:
        start, end = starts.get(each), ends.get(each)
        if not isinstance(start, int) or not isinstance(end, int):
            return None
        total += end - start
    return total


async def _sizes(source: ClassicCluster) -> dict[Place, int] | None:
    """Return the bytes of each partition at its leader; None without the right to ask."""
    sizes: dict[Place, int] = {}
    topics = source.metadata.topics
    for node_id in source.metadata.brokers:
        request = DescribeLogDirsRequest(None)
        try:
            answer: DescribeLogDirsResponse = await source.call_broker(
                node_id, "DescribeLogDirs", request
            )
        except ClassicError:
            return None
        for folder in answer.results:
            if folder.error_code:
                return None
            for topic in folder.topics:
                known = topics.get(topic.name)
                for each in topic.partitions:
                    led = known.partitions.get(each.partition_index) if known else None
                    if led is not None and led.leader_id == node_id and not each.is_future_key:
                        sizes[topic.name, each.partition_index] = each.partition_size
    return sizes
