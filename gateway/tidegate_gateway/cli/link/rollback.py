"""Runs `tidegate link rollback`.

The command names the topics, and the gateways return them.  The command may end at any time.
Topics that gateways write back to their source then still belong to this cluster.  If a return
makes no progress, the gateways lift its fence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.migration.returns import EndReverse, FenceReturn, ReverseTopics
from tidegate_runtime.settings_texts import BadSource

from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from .commands import known_link
from .text import lacking

LOOK_SECONDS: Final = 0.05
SAY_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 60.0
STUCK_SECONDS: Final = 60.0
UNENDED: Final = "no gateway has ended the return in time"
READY_SECONDS: Final = 4.0
"""Until then gateways have opened the source, and know where it ends."""


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """The options as typed.  max_behind: offsets that the source may lack when writers must wait.

    only_reverse: begin to write back, but do not return the topics.  cancel: stop writing back.
    """

    name: str
    topics: tuple[str, ...]
    max_behind: int
    only_reverse: bool
    cancel: bool
    yes: bool


class Rollback(NamedTuple):
    """The result of a rollback.  seconds: how long writers waited.  reason: of a failure, or ""."""

    topics: list[str]
    seconds: float
    reason: str


class NotReversed(Exception):
    """The topics cannot return to their source.  The text says why."""


def run_rollback(cluster: ClusterOptions, options: RollbackOptions, *, as_json: bool) -> int:
    """Return topics to their source; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not options.yes)
        if options.cancel and options.only_reverse:
            raise BadSource("--cancel ends what --only-reverse begins: give one of them")
        async with opened_cluster(cluster) as coordinator:
            known_link(coordinator.state, options.name)
            if options.cancel:
                return await _cancelled(coordinator, options, as_json=as_json)
            if not options.topics:
                raise BadSource("name the topics to return")
            if not await agreed(_question(options), yes=options.yes):
                return NOT_DONE
            done = await rolled_back(coordinator, options, is_quiet=as_json)
            are_here = not any(
                each is not None and each.link
                for each in map(coordinator.state.topics.by_name.get, done.topics)
            )
        after = rollback_text(done, options, are_here=are_here)
        print(json.dumps(done._asdict()) if as_json else after)
        return NOT_DONE if done.reason else 0

    return run_told(work)


def _question(options: RollbackOptions) -> str:
    count = len(options.topics)
    what = "Write what came since the switch back to the source"
    if options.only_reverse:
        return f"{what}, for {count} topics?"
    return f"{what}, and return {count} topics to it?"


async def _cancelled(coordinator: Coordinator, options: RollbackOptions, *, as_json: bool) -> int:
    answer = await coordinator.propose(EndReverse(options.name, options.topics))
    if isinstance(answer, str):
        print(f"tidegate: link {options.name}: {answer}", file=sys.stderr)
        return NOT_DONE
    text = f"{len(answer)} topics are written back no more. Their source will be fenced again."
    if not answer:
        text = "No topic is written back."
    print(json.dumps({"cancelled": answer}) if as_json else text)
    return 0


async def rolled_back(
    coordinator: Coordinator, options: RollbackOptions, *, is_quiet: bool
) -> Rollback:
    """Write topics back to their source, and return them; see the module's docstring."""
    names = list(dict.fromkeys(options.topics))
    before = _reversing(coordinator, names)
    answer = await coordinator.propose(ReverseTopics(options.name, tuple(names)))
    if isinstance(answer, str):
        return Rollback(names, 0.0, answer)
    if not before:
        await trio.sleep(READY_SECONDS)
        await coordinator.catch_up()
    try:
        await _caught_up(coordinator, names, options.max_behind, is_quiet=is_quiet)
    except NotReversed as error:
        return Rollback(names, 0.0, str(error))
    if options.only_reverse:
        return Rollback(names, 0.0, "")
    number = await coordinator.propose(FenceReturn(options.name, tuple(names)))
    if isinstance(number, str):
        return Rollback(names, 0.0, number)
    return await _followed(coordinator, number, names)


def _reversing(coordinator: Coordinator, names: Sequence[str]) -> bool:
    """Return whether all topics are written back already."""
    state = coordinator.state
    found = (state.topics.by_name.get(each) for each in names)
    known = (state.switches.switched.get(each.topic_id) for each in found if each is not None)
    return all(each is not None and each.reached for each in known)


def behind(coordinator: Coordinator, names: Sequence[str]) -> int:
    """Return how many offsets of topics their source lacks, as far as the log knows.

    Raises:
      NotReversed: the gateways do not write one of the topics back.
    """
    state, found = coordinator.state, 0
    for name in names:
        topic = state.topics.by_name.get(name)
        if topic is None:
            raise NotReversed(f"topic {name} is gone")
        switched = state.switches.switched.get(topic.topic_id)
        if switched is None or not switched.reached:
            why = switched.problem if switched is not None else ""
            raise NotReversed(why or f"topic {name} is written back no more")
        found += lacking(state, topic)
    return found


def _reached(coordinator: Coordinator, names: Sequence[str]) -> int:
    switches, topics = coordinator.state.switches.switched, coordinator.state.topics.by_name
    found = (switches.get(topics[each].topic_id) for each in names if each in topics)
    return sum(sum(each.reached) for each in found if each is not None)


async def _caught_up(
    coordinator: Coordinator, names: Sequence[str], max_behind: int, *, is_quiet: bool
) -> None:
    """Wait until the source has almost all records; print the progress.

    Raises:
      NotReversed: the gateways gave up, or make no progress.
    """
    said_at = moved_at = trio.current_time()
    done = -1
    while (left := behind(coordinator, names)) > max_behind:
        reached = _reached(coordinator, names)
        if reached != done:
            done, moved_at = reached, trio.current_time()
        elif trio.current_time() - moved_at > STUCK_SECONDS:
            raise NotReversed(
                f"the source lacks {left} offsets and got none for {STUCK_SECONDS:.0f} s;"
                " /v1/links of the gateways says why; they go on trying"
            )
        if not is_quiet and trio.current_time() - said_at >= SAY_SECONDS:
            said_at = trio.current_time()
            print(f"{left} offsets to write back", file=sys.stderr, flush=True)
        await trio.sleep(LOOK_SECONDS)
        await coordinator.catch_up()


async def _followed(coordinator: Coordinator, number: int, names: list[str]) -> Rollback:
    """Wait until the gateways remove the fence."""
    begun, switches = trio.current_time(), coordinator.state.switches
    with trio.move_on_after(PATIENCE_SECONDS):
        while number in switches.fences:
            await trio.sleep(LOOK_SECONDS)
            await coordinator.catch_up()
    seconds = trio.current_time() - begun
    if number in switches.fences:
        return Rollback(names, seconds, UNENDED)
    topics = [coordinator.state.topics.by_name.get(each) for each in names]
    if all(each is not None and each.link for each in topics):
        return Rollback(names, seconds, "")
    return Rollback(names, seconds, _why(coordinator, names))


def _why(coordinator: Coordinator, names: Sequence[str]) -> str:
    state = coordinator.state
    for name in names:
        topic = state.topics.by_name.get(name)
        switched = state.switches.switched.get(topic.topic_id) if topic is not None else None
        if switched is not None and switched.problem:
            return switched.problem
    return "the return was given up; the gateways' logs say why"


def rollback_text(done: Rollback, options: RollbackOptions, *, are_here: bool) -> str:
    """Return a text about the outcome.  are_here: whether the topics belong to this cluster."""
    if done.reason == UNENDED:
        return f"It is not known what came of it: {UNENDED}. See `tidegate link status`."
    if done.reason:
        rest = " The topics stay this cluster's." if are_here else ""
        return f"Nothing was returned: {done.reason}.{rest}"
    count = len(done.topics)
    some = "1 topic" if count == 1 else f"{count} topics"
    if options.only_reverse:
        return f"The source has almost all of {some}; gateways go on writing back."
    return f"{some} went back to the source, after {done.seconds:.2f} s without writes."
