"""Runs `tidegate link switch` and `finish`.

The command names the topics, and the gateways switch them.  The command may end at any time: if a
switch makes no progress, the gateways lift its fence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.client.source_bounds import LATEST, source_offsets
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.migration.switches import (
    FenceTopics,
    FinishSwitches,
    unfinished_switches,
)
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ...migration.survey.looking import missing_acls
from ...migration.switch.beyond import beyond_switch
from ...migration.switch.source_fence import FENCED_LIMIT, LIMIT, limits_of, set_limits
from ...migration.units.closure import Unit, closure_of
from ...migration.units.fencing import NotAtRest, fenced_unit, unfenced_unit
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..output.table import printable
from .commands import known_link
from .text import beyond_lines

LOOK_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
SAY_SECONDS: Final = 2.0
SHOWN: Final = 10
_SAVED_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    """The options as typed.  max_behind: offsets that the copies may lack at the switch's begin."""

    name: str
    topics: tuple[str, ...]
    max_behind: int
    save: Path | None
    client_properties: Path | None
    yes: bool
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        """The topics, groups and transactional ids that move at once."""
        return Unit(self.topics, self.groups, self.transactional_ids)


class Switching(NamedTuple):
    """The result of a switch.  seconds: how long writers waited.  reason: of a failure, or ""."""

    topics: list[str]
    seconds: float
    reason: str


def run_switch(cluster: ClusterOptions, options: SwitchOptions, *, as_json: bool) -> int:
    """Switch topics to this cluster; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not options.yes)
        async with opened_cluster(cluster) as coordinator:
            link = known_link(coordinator.state, options.name)
            topics = _named(coordinator, link.name, options.topics)
            async with opened_source(link.bootstrap_servers, options.client_properties) as source:
                limits = await _looked_at(coordinator, source, topics, options.max_behind)
                await _check_whole(coordinator, link, source, options.unit)
                lines = unfencing_lines(link, limits)
                if options.save is not None:
                    _save(options.save, lines)
                if not as_json:
                    print(_before(link, lines))
                    print(await _rights(coordinator, link, source, topics), end="")
                question = f"Switch {len(topics)} topics to this cluster?"
                if not await agreed(question, yes=options.yes):
                    return NOT_DONE
                wanted = tuple((each.topic_id, limits[each.name]) for each in topics)
                begun = trio.current_time()
                number = await _fenced(coordinator, source, link.name, wanted, options.unit)
            if isinstance(number, str):
                print(f"tidegate: nothing was switched: {number}", file=sys.stderr)
                return NOT_DONE
            done = await _followed(coordinator, number, topics, begun, is_quiet=as_json)
        print(json.dumps(done._asdict()) if as_json else _after(done))
        return NOT_DONE if done.reason else 0

    return run_told(work)


async def _check_whole(
    coordinator: Coordinator, link: Link, source: ClassicCluster, unit: Unit
) -> None:
    """Check that no transaction would span both clusters after the switch.

    Raises:
      BadSource: the unit lacks a topic, group or transactional id, or its producers are unknown.
    """
    if not link.transactional_ids:
        return
    try:
        closure = await closure_of(coordinator.state, link, source, unit)
    except ClassicError as error:
        raise BadSource(f"the producers of the topics are not known: {error}") from None
    for text in closure.unchecked:
        print(f"tidegate: {text}", file=sys.stderr)
    if closure.missing:
        shown = "\n  ".join(printable(each) for each in closure.missing[:SHOWN])
        raise BadSource(f"a transaction cannot span two clusters:\n  {shown}")


async def _fenced(
    coordinator: Coordinator,
    source: ClassicCluster,
    link: str,
    wanted: tuple[tuple[bytes, str], ...],
    unit: Unit,
) -> int | str:
    """Fence the unit: groups and ids, then topics; return the fence, or why there is none."""
    if not unit.groups and not unit.transactional_ids:
        return await coordinator.propose(FenceTopics(link, wanted))
    try:
        held = await fenced_unit(coordinator, source, link, unit)
    except NotAtRest as error:
        return str(error)
    number = await coordinator.propose(FenceTopics(link, wanted, held))
    if isinstance(number, str):
        await unfenced_unit(coordinator, held, number)
    return number


def _named(coordinator: Coordinator, link: str, names: Sequence[str]) -> list[Topic]:
    mirrored = {each.name: each for each in coordinator.state.links.topics_of(link)}
    own = unfinished_switches(coordinator.state, link)
    for name in names:
        if name in own:
            raise BadSource(f"topic {printable(name)} was switched: it is this cluster's already")
        if name not in mirrored:
            raise BadSource(
                f"topic {printable(name)} is not mirrored by link {link}; see `tidegate link status"
                f" {link}`"
            )
    if not names:
        raise BadSource("name the topics to switch")
    return [mirrored[each] for each in dict.fromkeys(names)]


async def _looked_at(
    coordinator: Coordinator, source: ClassicCluster, topics: Sequence[Topic], max_behind: int
) -> dict[str, str]:
    """Return the max.message.bytes of the topics at the source.

    Raises:
      BadSource: the topics cannot be switched; the text says why.
    """
    names = [each.name for each in topics]
    await source.refresh(names)
    limits = await limits_of(source, names)
    for name in names:
        if name not in limits:
            raise BadSource(f"no right to DESCRIBE_CONFIGS of {printable(name)} at the source")
    for name, limit in limits.items():
        if limit == FENCED_LIMIT:
            raise BadSource(f"{LIMIT} of {printable(name)} is 0 at the source: set it first")
    await set_limits(source, dict.fromkeys(names, FENCED_LIMIT), is_trial=True)
    places = [(each.name, at) for each in topics for at in range(len(each.partition_numbers))]
    ends = await source_offsets(source, places, LATEST)
    await coordinator.catch_up()
    for topic in topics:
        for index, number in enumerate(topic.partition_numbers):
            end = ends[topic.name, index]
            where = f"{printable(topic.name)}-{index}"
            if isinstance(end, str):
                raise BadSource(f"{where}: {end}")
            behind = end - coordinator.state.partitions[number].next_offset
            if behind > max_behind:
                raise BadSource(
                    f"the copy of {where} is {behind} offsets behind: wait, or give --max-behind"
                )
    return limits


def unfencing_lines(link: Link, limits: Mapping[str, str]) -> list[str]:
    """Return the commands with which the source takes writes again, even without any gateway."""
    head = f"kafka-configs.sh --bootstrap-server {link.bootstrap_servers} --alter"
    return [
        f"{head} --entity-type topics --entity-name {name} "
        + (f"--add-config {LIMIT}={limit}" if limit else f"--delete-config {LIMIT}")
        for name, limit in sorted(limits.items())
    ]


def _save(path: Path, lines: Sequence[str]) -> None:
    try:
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
        path.chmod(_SAVED_MODE)
    except OSError as error:
        raise BadSource(f"--save: {error}") from None


def _before(link: Link, lines: Sequence[str]) -> str:
    writers = "" if link.forwards else " The link forwards no writes: stop the producers first."
    return "\n".join(
        [
            "The source will refuse writes to these topics, with MESSAGE_TOO_LARGE." + writers,
            "Should no gateway be left, this makes it take writes again:",
            *(f"  {each}" for each in lines),
        ]
    )


async def _rights(
    coordinator: Coordinator, link: Link, source: ClassicCluster, topics: Sequence[Topic]
) -> str:
    """Return a line about topics whose ACLs are not here; "" if no such topic is known."""
    missing = await missing_acls(source, coordinator.state)
    lacking = missing.topics_of(each.name for each in topics) if missing is not None else []
    if not lacking:
        return ""
    return (
        f"ACLs of the source about {len(lacking)} of these topics are not here: see `tidegate link"
        f" acls {link.name}`.\n"
    )


async def _followed(
    coordinator: Coordinator,
    number: int,
    topics: Sequence[Topic],
    begun: float,
    *,
    is_quiet: bool,
) -> Switching:
    """Wait until the gateways remove the fence.  begun: the start of the switch on trio's clock."""
    names, reason = [each.name for each in topics], ""
    switches = coordinator.state.switches
    said_at = trio.current_time()
    with trio.move_on_after(PATIENCE_SECONDS):
        while (fence := switches.fences.get(number)) is not None:
            reason = fence.lifted
            if not is_quiet and trio.current_time() - said_at >= SAY_SECONDS:
                said_at = trio.current_time()
                print(_waiting(reason), file=sys.stderr, flush=True)
            await trio.sleep(LOOK_SECONDS)
            await coordinator.catch_up()
        is_switched = all(each.topic_id in switches.switched for each in topics)
        lifted = reason or "the switch was given up; the gateways' logs say why"
        return Switching(names, trio.current_time() - begun, "" if is_switched else lifted)
    late = f"{reason or 'the gateways do nothing'}; no gateway has ended the switch in time"
    return Switching(names, trio.current_time() - begun, late)


def _waiting(lifted: str) -> str:
    """Return the line to print while a fence exists.  lifted: why it was lifted, or ""."""
    if lifted:
        return f"given up ({lifted}): waiting for the source, which must take writes again"
    return "waiting for the gateways and the source"


def _after(done: Switching) -> str:
    if done.reason:
        return f"Nothing was switched: {done.reason}. The topics stay with the source."
    count = len(done.topics)
    return (
        f"{count} {'topic is' if count == 1 else 'topics are'} this cluster's now, after"
        f" {done.seconds:.2f} s without writes."
    )


def run_finish(
    cluster: ClusterOptions,
    name: str,
    topics: tuple[str, ...],
    file: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """End the watch over the source of switched topics; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not yes)
        async with opened_cluster(cluster) as coordinator:
            link = known_link(coordinator.state, name)
            for line in await _left_behind(coordinator, link, file, topics):
                print(line, file=sys.stderr)
            if not await agreed("Watch the source of the switched topics no longer?", yes=yes):
                return NOT_DONE
            answer = await coordinator.propose(FinishSwitches(name, topics))
        if isinstance(answer, str):
            print(f"tidegate: link {name}: {answer}", file=sys.stderr)
            return NOT_DONE
        print(json.dumps({"finished": answer}) if as_json else _finished(answer))
        return 0

    return run_told(work)


async def _left_behind(
    coordinator: Coordinator, link: Link, file: Path | None, topics: Sequence[str]
) -> list[str]:
    """Return lines about the records of the source that this cluster will never get."""
    names = topics or list(unfinished_switches(coordinator.state, link.name))
    try:
        async with opened_source(link.bootstrap_servers, file) as source:
            await source.refresh(names)
            return beyond_lines(await beyond_switch(source, coordinator.state, link.name, names))
    except BadSource as error:
        return [f"It is not known whether the source has records from after the switch: {error}"]


def _finished(names: Sequence[str]) -> str:
    if not names:
        return "No topic of the link waits to be finished."
    return f"{len(names)} topics have no source any more. It was not changed: its fence stays."
