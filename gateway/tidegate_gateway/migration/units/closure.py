"""Checks that a unit is complete, by the producers that the source's leaders know (KIP-664).

A transaction cannot span two clusters.  So if a unit has a transactional id, it must also have all
topics to which this id has written.  And if a unit has a topic, it must also have all ids that have
written to this topic and that gateways forward.  Leaders forget a producer after a day without a
write (producer.id.expiration.ms).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError, Kind
from tidegate_coordination.client.groups.group_offsets import states_of
from tidegate_coordination.client.source_bounds import Place
from tidegate_coordination.rules.migration.units import MAX_IDS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.migration.source_groups import is_named
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC, offsets_partition

from .source_ids import listed_ids
from .source_producers import source_producers

UNSEEN_TEXT: Final = (
    "the groups whose offsets they commit are not checked: READ of __consumer_offsets is missing"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """topics: names.  groups: ids.  transactional_ids: entries of the link's list."""

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Closure:
    """The problems of a unit.

    missing: what the unit lacks, or has too much of.  unchecked: what could not be checked.

    Each text is a sentence for a person.
    """

    missing: list[str] = field(default_factory=list[str])
    unchecked: list[str] = field(default_factory=list[str])


async def closure_of(
    state: ClusterState, link: Link, source: ClassicCluster, unit: Unit
) -> Closure:
    """Return the problems that make a unit incomplete.

    Raises:
      ClassicError: the source does not say.
    """
    moved = state.link_groups.moved_ids.get(link.name, set())
    names = [each for each in link.transactional_ids if each not in moved]
    if not names:
        return Closure()
    listed = await listed_ids(
        source, names, lambda name: state.link_groups.link_of_id(name) == link.name
    )
    ids = {each.producer_id: each.name for each in listed}
    closure = Closure(unfit_names(list(ids.values()), unit))
    places = [
        (topic.name, index)
        for topic in state.links.topics_of(link.name)
        for index in range(len(topic.partition_numbers))
    ]
    await source.refresh({name for name, _ in places})
    producers = await _writers(source, places)
    closure.missing += missing_writers(producers, ids, unit)
    found = await _offsets(state, link, source)
    if found is None:
        closure.unchecked.append(UNSEEN_TEXT)
    else:
        closure.missing += missing_groups(*found, ids, unit)
    return closure


def unfit_names(ids: Sequence[str], unit: Unit) -> list[str]:
    """Return which names of a unit match no id, and whether there are too many ids.  Pure.

    ids: the forwarded ids that the source shows.
    """
    ours = [each for each in ids if is_named(unit.transactional_ids, each)]
    texts = [
        f"the source shows no transactional id {name}: is the right to DESCRIBE it missing?"
        for name in unit.transactional_ids
        if not any(is_named((name,), each) for each in ours)
    ]
    if len(ours) > MAX_IDS:
        texts.append(f"these are {len(ours)} transactional ids: a unit has up to {MAX_IDS}")
    return texts


async def _offsets(
    state: ClusterState, link: Link, source: ClassicCluster
) -> tuple[dict[int, set[int]], dict[int, list[str]]] | None:
    """Return producers and forwarded groups, by partition of the offsets topic.

    None if the source does not let this client see the topic.
    """
    groups: defaultdict[int, list[str]] = defaultdict(list)
    try:
        metadata = await source.refresh([OFFSETS_TOPIC])
        known = metadata.topics.get(OFFSETS_TOPIC)
        count = len(known.partitions) if known is not None else 0
        places = [(OFFSETS_TOPIC, index) for index in range(count)]
        found = await _writers(source, places)
        for group_id in sorted(await states_of(source)) if count else ():
            if state.link_groups.link_of(group_id) == link.name:
                groups[offsets_partition(group_id, count)].append(group_id)
    except ClassicError as error:
        if error.kind is Kind.NOT_ALLOWED:
            return None
        raise
    return {index: theirs for (_, index), theirs in found.items()}, groups


def missing_writers(
    producers: Mapping[Place, Collection[int]], ids: Mapping[int, str], unit: Unit
) -> list[str]:
    """Return which ids and topics a unit lacks.  Pure.

    producers: ids by partition.  ids: transactional ids that gateways forward, by producer id.
    """
    found: list[str] = []
    for (topic, _), theirs in sorted(producers.items()):
        for name in sorted(ids[each] for each in theirs if each in ids):
            is_ours = is_named(unit.transactional_ids, name)
            if is_ours != (topic in unit.topics):
                what = "the topic" if is_ours else "the id"
                found.append(f"transactional id {name} writes to topic {topic}: name {what}, too")
    return list(dict.fromkeys(found))


def missing_groups(
    producers: Mapping[int, Collection[int]],
    groups: Mapping[int, Sequence[str]],
    ids: Mapping[int, str],
    unit: Unit,
) -> list[str]:
    """Return which ids and groups a unit lacks.  Pure.

    producers, groups: by partition of the offsets topic; several groups may share one.
    """
    found: list[str] = []
    for index, theirs in sorted(producers.items()):
        here = groups.get(index, ())
        ours = [each for each in here if each in unit.groups]
        for name in sorted(ids[each] for each in theirs if each in ids):
            is_ours = is_named(unit.transactional_ids, name)
            if is_ours and here and not ours:
                groups_text = " or ".join(here[:3])
                found.append(f"transactional id {name} commits offsets of {groups_text}: name it")
            elif not is_ours and ours and len(here) == len(ours):
                found.append(f"transactional id {name} commits offsets of {ours[0]}: name it")
    return found


async def _writers(source: ClassicCluster, places: Iterable[Place]) -> dict[Place, set[int]]:
    """Return the producer ids that the leaders of partitions know."""
    found = await source_producers(source, places)
    return {place: {each.producer_id for each in known} for place, known in found.items()}
