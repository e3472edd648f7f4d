"""The links of a gateway as its admin pages and metrics show them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate_coordination.rules.switches import unreached
from tidegate_coordination.state.cluster import ClusterState

from .links import Links, RunningLink

MAX_PROBLEMS: Final = 100


class LinkFigures(NamedTuple):
    """A link's figures at this gateway.

    partitions: that it mirrors.  stuck: those of them that do not go on.  lag_records: offsets of
    the source that are missing here, as of its last answers.  refused: topics of the source that
    cannot be mirrored; known to one gateway only.  strays: records that the source has beyond the
    switch of their topics; known to one gateway only.
    """

    name: str
    is_up: bool
    partitions: int
    stuck: int
    lag_records: int
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
        stuck = sum(1 for each in mirrors if each.problem)
        refused = len(running.sync.refused) if running.sync is not None else 0
        is_up = running.mirror is not None
        strays = sum(running.watch.strays.values()) if running.watch is not None else 0
        yield LinkFigures(name, is_up, len(mirrors), stuck, lag, refused, strays)


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


def _names(state: ClusterState, topic_ids: Iterable[bytes]) -> list[str]:
    found = (state.topics.by_id.get(each) for each in topic_ids)
    return sorted(each.name for each in found if each is not None)


def _problems(running: RunningLink) -> list[dict[str, object]]:
    if running.mirror is None:
        return []
    stuck = [each for each in running.mirror.mirrors.values() if each.problem]
    return [
        {"topic": each.topic.name, "partition": each.index, "problem": each.problem}
        for each in stuck[:MAX_PROBLEMS]
    ]


def _refused(running: RunningLink) -> dict[str, str]:
    return dict(running.sync.refused) if running.sync is not None else {}
