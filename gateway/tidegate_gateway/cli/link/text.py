"""The texts that `tidegate link` prints.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tidegate_coordination.rules.migration.mirrors import LinkRefusal
from tidegate_coordination.rules.written_back import reached_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import Topic

from ...migration.switch.beyond import Beyond
from ..output.table import aligned, counted, printable

_SHOWN_NAMES = 20


class Added(NamedTuple):
    """A requested link, the topics that it will mirror, and why it was refused.

    refused_topics: why topics that match are not mirrored, by name.
    """

    link: Link
    topics: list[str]
    refusal: LinkRefusal | None
    refused_topics: Mapping[str, str] = {}


class Noticed(NamedTuple):
    """Trouble of a link, by topic: why it is not mirrored, or that its source has more records."""

    refused: Mapping[str, str] = {}
    beyond: Mapping[str, Beyond] = {}

    @property
    def is_trouble(self) -> bool:
        """Return whether there is certainly a problem."""
        return bool(self.refused) or any(each.is_sure for each in self.beyond.values())

    @property
    def lines(self) -> list[str]:
        """Return a line for each problem."""
        return [*refused_lines(self.refused), *beyond_lines(self.beyond)]


def refused_lines(refused: Mapping[str, str]) -> list[str]:
    """Return a line for each topic that is not mirrored; of many topics only the first ones."""
    lines = [
        f"PROBLEM: not mirrored: {printable(name)}: {printable(text)}"
        for name, text in sorted(refused.items())[:_SHOWN_NAMES]
    ]
    more = len(refused) - _SHOWN_NAMES
    return [*lines, f"  and {counted(more, 'topic')} more"] if more > 0 else lines


def beyond_lines(beyond: Mapping[str, Beyond]) -> list[str]:
    """Return a line for each switched topic whose source has further offsets."""
    return [
        f"PROBLEM: {printable(name)}: {counted(each.offsets, 'record')} of its source"
        f" {'is' if each.offsets == 1 else 'are'} from after the switch, and not here"
        if each.is_sure
        else f"{printable(name)}: its source has {counted(each.offsets, 'offset')} more than the"
        " log knows of; tidegate_link_stray_records counts those that are not here"
        for name, each in sorted(beyond.items())
    ]


class Switches(NamedTuple):
    """The topics of a link that are being switched, were switched, or have no source any more.

    is_on_hold: the log was restored, and no operator has confirmed the link.  reversing: for each
    topic that gateways write back to its source, how many offsets the source lacks, as far as the
    log knows.  stayed: why a topic did not go back to the source.  moved_transactional_ids: the
    entries of the link's list that have moved.
    """

    switching: list[str]
    switched: list[str]
    finished: list[str]
    is_on_hold: bool
    returning: list[str]
    reversing: dict[str, int]
    stayed: dict[str, str]
    moved_transactional_ids: Sequence[str] = ()


def switches_of(state: ClusterState, link: str) -> Switches:
    """Return the switches of a link."""
    table, topics = state.switches, state.topics.by_id
    fences = table.of_link(link)
    fenced = [key for each in fences if not each.is_back for key in each.limits]
    returning = [key for each in fences if each.is_back for key in each.limits]
    own = {key: each for key, each in table.switched.items() if each.link == link}

    there = [each for each in own if each in topics]

    def names(ids: Iterable[bytes]) -> list[str]:
        return sorted(topics[each].name for each in ids if each in topics)

    return Switches(
        names(fenced),
        names(key for key, each in own.items() if not each.is_finished),
        names(key for key, each in own.items() if each.is_finished),
        link in table.on_hold,
        names(returning),
        {topics[key].name: lacking(state, topics[key]) for key in there if own[key].reached},
        {topics[key].name: own[key].problem for key in there if own[key].problem},
        sorted(state.link_groups.moved_ids.get(link, ())),
    )


def lacking(state: ClusterState, topic: Topic) -> int:
    """Return how many offsets of a topic its source lacks; 0 if the topic is not written back."""
    parts = (state.partitions[number] for number in topic.partition_numbers)
    return sum(
        each.next_offset - reached
        for each in parts
        if (reached := reached_of(state, each)) is not None
    )


class Copy(NamedTuple):
    """A topic of a link.

    records: offsets between the start and the end here.  behind: offsets that are missing here;
    None if the source did not say.  problem: its reason.
    """

    topic: str
    partitions: int
    size_bytes: int
    records: int
    behind: int | None
    problem: str


def added_text(added: Added, file: Path | None) -> str:
    """Return a text about the link that was set, and the next steps."""
    link, refused = added.link, added.refused_topics
    lines = [f"Link {link.name} to cluster {link.cluster_id} is set."]
    if file is not None:
        lines.append(
            f"Gateways need the client properties, too: link.client.properties={link.name}={file}"
        )
    if link.forwards:
        lines.append("Gateways forward what clients write to its topics to the source.")
    if link.groups:
        lines.append(f"Gateways forward groups to the source: {_names(link.groups)}")
    if link.transactional_ids:
        names = _names(link.transactional_ids)
        lines.append(f"Gateways forward transactional ids to the source: {names}")
    if not link.topics:
        lines.append("It mirrors no topic yet: give --topics PATTERN, with --replace.")
    elif not added.topics:
        lines.append("No topic of the source matches its patterns yet.")
    else:
        lines += _mirrored_lines([each for each in added.topics if each not in refused])
        lines += refused_lines(refused)
    lines.append(f"To follow it: tidegate link status {link.name}")
    return "\n".join(lines)


def _mirrored_lines(topics: Sequence[str]) -> list[str]:
    if not topics:
        return ["It mirrors no topic."]
    shown = ", ".join(map(printable, topics[:_SHOWN_NAMES]))
    more = len(topics) - _SHOWN_NAMES
    lines = [f"It mirrors {counted(len(topics), 'topic')}: {shown}"]
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(map(printable, names[:_SHOWN_NAMES]))
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def added_json(added: Added) -> str:
    """Return the same for scripts."""
    refusal = added.refusal.value if added.refusal is not None else None
    more = {"matching_topics": added.topics, "refused_topics": dict(added.refused_topics)}
    return json.dumps({**_link(added.link), **more, "refusal": refusal})


def _link(link: Link) -> dict[str, object]:
    return {
        "name": link.name,
        "cluster_id": link.cluster_id,
        "bootstrap_servers": link.bootstrap_servers,
        "topics": list(link.topics),
        "forwards_writes": link.forwards,
        "forwarded_groups": list(link.groups),
        "forwarded_transactional_ids": list(link.transactional_ids),
    }


def list_text(rows: Sequence[tuple[Link, int]]) -> str:
    """Return a line for each link."""
    if not rows:
        return "There is no link. To make one: tidegate link add"
    cells = [("link", "source", "bootstrap servers", "topics")]
    cells += [
        (link.name, link.cluster_id, link.bootstrap_servers, str(count)) for link, count in rows
    ]
    return "\n".join(aligned(cells))


def list_json(rows: Sequence[tuple[Link, int]]) -> str:
    """Return the same for scripts."""
    return json.dumps([{**_link(link), "mirrored_topics": count} for link, count in rows])


_NOTHING: Final = Noticed()


def status_text(
    link: Link,
    copies: Sequence[Copy],
    switches: Switches,
    moved: Sequence[str],
    problem: str,
    noticed: Noticed = _NOTHING,
) -> str:
    """Return a line for each topic, and their sum."""
    lines = [f"Link {link.name} to cluster {link.cluster_id} at {link.bootstrap_servers}"]
    if problem:
        lines.append(f"PROBLEM: {problem}")
    lines += noticed.lines
    lines += _of_switches(switches)
    if link.groups:
        lines.append(f"groups that gateways forward: {_names(link.groups)}")
    gone = switches.moved_transactional_ids
    left = [each for each in link.transactional_ids if each not in gone]
    if left:
        lines.append(f"transactional ids that gateways forward: {_names(left)}")
    if gone:
        lines.append(f"transactional ids that have moved here: {_names(gone)}")
    if moved:
        lines.append(f"groups that have moved here: {_names(moved)}")
    if not copies and (switches.switched or switches.finished):
        lines.append("It mirrors no topic any more.")
        return "\n".join(lines)
    if not copies:
        lines.append("It mirrors no topic yet.")
        return "\n".join(lines)
    cells = [("topic", "partitions", "MiB", "offsets", "behind", "")]
    cells += [
        (
            printable(each.topic),
            str(each.partitions),
            f"{each.size_bytes / (1 << 20):.1f}",
            str(each.records),
            "?" if each.behind is None else str(each.behind),
            each.problem,
        )
        for each in copies
    ]
    lines += aligned(cells)
    if not problem and not noticed.is_trouble and all(each.behind == 0 for each in copies):
        lines.append("All copies are complete.")
    return "\n".join(lines)


def _of_switches(switches: Switches) -> list[str]:
    lines = (
        ("being switched", switches.switching),
        ("going back", switches.returning),
        ("switched to this cluster", switches.switched),
        ("finished", switches.finished),
    )
    found = [f"{text}: {', '.join(map(printable, names))}" for text, names in lines if names]
    found += [
        f"written back to the source: {printable(name)}, {behind} offsets behind"
        for name, behind in switches.reversing.items()
    ]
    found += [
        f"not returned: {printable(name)}: {printable(why)}"
        for name, why in switches.stayed.items()
    ]
    if switches.is_on_hold:
        found.append("ON HOLD since the log was restored; confirm it: tidegate link add --replace")
    return found


def status_json(
    link: Link,
    copies: Sequence[Copy],
    switches: Switches,
    moved: Sequence[str],
    problem: str,
    noticed: Noticed = _NOTHING,
) -> str:
    """Return the same for scripts."""
    topics = [each._asdict() for each in copies]
    more = {"problem": problem or None, "copies": topics, "moved_groups": list(moved)}
    more |= switches._asdict()
    beyond = {name: each._asdict() for name, each in noticed.beyond.items()}
    trouble = {"refused_topics": dict(noticed.refused), "beyond_switch": beyond}
    return json.dumps({**_link(link), **more, **trouble})


def removed_text(name: str, topics: Sequence[str]) -> str:
    """Return a text about the link that was removed."""
    return (
        f"Link {name} is removed, with {len(topics)} topics."
        if topics
        else (f"Link {name} is removed.")
    )


def removed_json(name: str, topics: Sequence[str]) -> str:
    """Return the same for scripts."""
    return json.dumps({"name": name, "deleted_topics": list(topics)})
