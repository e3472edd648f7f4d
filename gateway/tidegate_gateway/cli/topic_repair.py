"""`tidegate topic repair`: which records of a topic cannot be read, and going on without them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Final

import trio

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.metadata_log import LogMisconfigured
from tidegate_coordination.rules.skips import Skip, SkipRuns
from tidegate_coordination.state.topics import Topic
from tidegate_storage.object_store import ObjectStore
from tidegate_storage.ownership import check_owner, read_owner
from tidegate_storage.range_cache import RangeCache

from ..log_reader import LogReader
from ..logs import configure_logs
from ..readability import BadRun, ReadabilityCheck, proposed, stretches
from ..refusals_to_start import sentence_of
from ..settings_sources import BadSource
from ..startup import check_cluster, load_state
from ..visitor import keep_lease, register_visitor
from .bar import BytesBar
from .dev_pipeline import default_log, default_store
from .log_backup_running import open_existing_log, open_existing_store
from .topic_repair_text import NOT_TOLD, Outcome, as_json_text, as_text, summary

LOAD_SECONDS: Final = 120.0
LEAVE_SECONDS: Final = 10.0
# Of one proposal.
MAX_STRETCHES: Final = 200
# What was merged meanwhile is looked at again, so often.
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class TopicRepairOptions:
    """As they were typed.  partition: None for all."""

    topic: str
    partition: int | None
    data: Path
    object_store: str | None
    log: str | None
    skip: bool
    yes: bool


def run_topic_repair(options: TopicRepairOptions, *, as_json: bool) -> int:
    """Show, or skip; return the exit code."""
    configure_logs("critical")
    try:
        if options.skip and as_json and not options.yes:
            raise BadSource("--json asks nobody: give --yes, too")
        confirm = _confirmed if not options.yes else _always
        outcome = trio.run(_repair, options, confirm, not as_json)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        print(f"tidegate: {sentence}", file=sys.stderr)
        return NOT_TOLD
    print(as_json_text(outcome) if as_json else summary(outcome, skip=options.skip))
    return outcome.exit_code


def _always(question: str) -> bool:
    return True


def _confirmed(question: str) -> bool:
    """Ask a person; where there is none, the answer is no."""
    if not sys.stdin.isatty():
        print(f"{question} Nobody is there to answer: give --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


@dataclass(frozen=True, slots=True)
class _Opened:
    coordinator: Coordinator
    check: ReadabilityCheck
    store: ObjectStore
    rng: Random


@asynccontextmanager
async def _opened(options: TopicRepairOptions) -> AsyncGenerator[_Opened, None]:
    """Log and store of a cluster, which must be each other's: else all would seem to be missing."""
    async with AsyncExitStack() as stack:
        log = await open_existing_log(options.log or default_log(options.data))
        stack.push_async_callback(log.aclose)
        store = open_existing_store(options.object_store or default_store(options.data))
        stack.push_async_callback(store.aclose)
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        check_cluster(state, "")
        if not state.cluster_id:
            raise LogMisconfigured("it is empty: no gateway has used it yet")
        if await read_owner(store) is None:
            raise BadSource(
                "the object store belongs to no cluster: give the same --data or --object-store as"
                " the gateways have"
            )
        await check_owner(store, state.cluster_id, timeline=state.timeline)
        rng = Random(os.urandom(32))
        coordinator = Coordinator(log, state, rng=rng, wall_clock=time.time)
        reader = LogReader(coordinator, store, RangeCache[object](0))
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(coordinator.run)
        check = ReadabilityCheck(coordinator, store, reader)
        yield _Opened(coordinator, check, store, rng)
        nursery.cancel_scope.cancel()


async def _repair(
    options: TopicRepairOptions, confirm: Callable[[str], bool], says: bool
) -> Outcome:
    async with _opened(options) as opened:
        topic, numbers = _partitions(opened.coordinator, options)
        outcome = await _look(opened, topic, numbers, says)
        if not options.skip or not outcome.left:
            return outcome
        lost = sum(each.lost for each in outcome.left)
        if await trio.to_thread.run_sync(confirm, f"Skip {lost} records for good?"):
            await _skip(opened, outcome, numbers, says)
        return outcome
    raise AssertionError


async def _look(opened: _Opened, topic: Topic, numbers: list[int], says: bool) -> Outcome:
    partitions = opened.coordinator.state.partitions
    total = sum(partitions[number].size_bytes for number in numbers)
    with BytesBar("reading", total, is_shown=says) as bar:
        found = await opened.check.look(numbers, bar.add)
    outcome = Outcome(topic, found, left=found.unreadable)
    if says:
        print(as_text(outcome), flush=True)
    return outcome


def _partitions(coordinator: Coordinator, options: TopicRepairOptions) -> tuple[Topic, list[int]]:
    topic = coordinator.state.topics.by_name.get(options.topic)
    if topic is None:
        raise BadSource(f"there is no topic {options.topic}")
    if options.partition is None:
        return topic, list(topic.partition_numbers)
    if options.partition >= len(topic.partition_numbers):
        count = len(topic.partition_numbers)
        raise BadSource(f"--partition {options.partition}: {options.topic} has {count} partitions")
    return topic, [topic.partition_numbers[options.partition]]


async def _skip(opened: _Opened, outcome: Outcome, numbers: list[int], says: bool) -> None:
    """Skip what was found; what changed meanwhile is looked at again, and nothing else skipped."""
    confirmed = wanted = outcome.left
    state = opened.coordinator.state
    async with _incarnation(opened):
        for _ in range(ROUNDS):
            await check_owner(opened.store, state.cluster_id, timeline=state.timeline)
            has_changed = await _skip_once(opened.coordinator, wanted, outcome)
            if not has_changed:
                outcome.left = []
                return
            again = await _look(opened, outcome.topic, numbers, says)
            outcome.found, outcome.left = again.found, again.left
            wanted = [each for each in again.left if _is_within(each, confirmed)]
            if not wanted:
                return


async def _skip_once(coordinator: Coordinator, wanted: Sequence[BadRun], outcome: Outcome) -> bool:
    """Tell whether something could not be skipped, since it is not what it was."""
    has_changed = False
    waiting = stretches(wanted)
    for start in range(0, len(waiting), MAX_STRETCHES):
        some = waiting[start : start + MAX_STRETCHES]
        proposal = SkipRuns(coordinator.incarnation, tuple(proposed(each) for each in some))
        answers = await coordinator.propose(proposal)
        for stretch, answer in zip(some, answers, strict=True):
            if answer is Skip.SKIPPED:
                outcome.skipped += stretch
            has_changed |= answer is Skip.CHANGED
    return has_changed


def _is_within(each: BadRun, confirmed: Sequence[BadRun]) -> bool:
    return any(
        other.partition == each.partition
        and other.row.base_offset <= each.row.base_offset
        and each.row.next_offset <= other.row.next_offset
        for other in confirmed
    )


@asynccontextmanager
async def _incarnation(opened: _Opened) -> AsyncGenerator[None, None]:
    """Be known to the log, for as long as it takes."""
    coordinator = opened.coordinator
    await register_visitor(
        coordinator, "repair", rng=opened.rng, software_version=version("tidegate")
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_lease, coordinator)
        yield
        nursery.cancel_scope.cancel()
    with trio.move_on_after(LEAVE_SECONDS):
        try:
            await coordinator.leave()
        except (CoordinatorUnavailable, ProposalFailed):
            return  # its lease will see to it
