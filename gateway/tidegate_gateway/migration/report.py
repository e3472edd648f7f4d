"""The links of a gateway as its admin pages and metrics show them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate_coordination.rules.migration.switches import unreached
from tidegate_coordination.state.cluster import ClusterState

from .back.partition import PartitionReverse
from .links import Links, RunningLink
from .mirror.partition import PartitionMirror

MAX_PROBLEMS: Final = 100


class LinkFigures(NamedTuple):
    """A link's figures at this gateway.

    partitions: that the gateway mirrors.  stuck: partitions with a problem, mirrored or written
    back.  lag_records: offsets of the source that are missing here, as of its last answers.
    reverse_lag_records: offsets that this gateway still has to write back.  refused: topics of the
    source that cannot be mirrored.  strays: records of the source from after the switch of their
    topics.  Only one gateway knows refused and strays.
    """

    name: str
    is_up: bool
    partitions: int
    stuck: int
    lag_records: int
    reverse_lag_records: int
    refused: int
    strays: int


def figures(links: Links, state: ClusterState) -> Iterator[LinkFigures]:
    """Yield the figures of each link, by name."""
    for name, running in sorted(links.running.items()):
        mirrors = running.mirror.mirrors.values() if running.mirror is not None else ()
        lag = sum(
            each.lag_records(partition)
            for each in mirrors
            if (partition := state.partitions.get(each.number)) is not None
        )
        reverses = _reverses(running)
        stuck = sum(1 for each in mirrors if each.problem)
        stuck += sum(1 for each in reverses if each.problem)
        reverse_lag = sum(each.lag_records for each in reverses)
        refused = len(running.sync.refused) if running.sync is not None else 0
        is_up = running.mirror is not None
        strays = sum(running.watch.strays.values()) if running.watch is not None else 0
        yield LinkFigures(name, is_up, len(mirrors), stuck, lag, reverse_lag, refused, strays)


def links_report(links: Links, state: ClusterState) -> list[dict[str, object]]:
    """Return all links as builtins."""
    return [
        {
            **each._asdict(),
            "cluster_id": links.running[each.name].link.cluster_id,
            "bootstrap_servers": links.running[each.name].link.bootstrap_servers,
            "topics": list(links.running[each.name].link.topics),
            "problem": links.running[each.name].problem or None,
            "problems": _problems(links.running[each.name]),
            "switching": _switching(state, each.name),
            "switched": _switched(state, each.name),
            "reversing": _reversing(state, each.name),
            "refused_topics": _refused(links.running[each.name]),
        }
        for each in figures(links, state)
    ]


def _switching(state: ClusterState, link: str) -> list[dict[str, object]]:
    return [
        {
            "topics": _names(state, each.limits),
            "lifted": each.lifted or None,
            "unanswered": unreached(state, each) or None,
        }
        for each in state.switches.of_link(link)
    ]


def _switched(state: ClusterState, link: str) -> list[str]:
    return _names(
        state,
        [key for key, each in state.switches.switched.items() if each.link == link],
    )


def _reversing(state: ClusterState, link: str) -> list[str]:
    switched = state.switches.switched.items()
    return _names(state, [key for key, each in switched if each.link == link and each.reached])


def _reverses(running: RunningLink) -> list[PartitionReverse]:
    """Return the partitions that this gateway writes back, without those of deleted topics."""
    if running.reversing is None:
        return []
    return [each for each in running.reversing.partitions.values() if each.is_there]


def _names(state: ClusterState, topic_ids: Iterable[bytes]) -> list[str]:
    found = (state.topics.by_id.get(each) for each in topic_ids)
    return sorted(each.name for each in found if each is not None)


def _problems(running: RunningLink) -> list[dict[str, object]]:
    if running.mirror is None:
        return []
    parts: list[PartitionMirror | PartitionReverse] = [*running.mirror.mirrors.values()]
    parts += _reverses(running)
    stuck = [each for each in parts if each.problem]
    return [
        {"topic": each.topic.name, "partition": each.index, "problem": each.problem}
        for each in stuck[:MAX_PROBLEMS]
    ]


def _refused(running: RunningLink) -> dict[str, str]:
    return dict(running.sync.refused) if running.sync is not None else {}
