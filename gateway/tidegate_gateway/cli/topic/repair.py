"""`tidegate topic repair`: shows which records of a topic cannot be read, and skips them.

bring_back.py ends a skip.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import KEPT_SKIPS
from tidegate_coordination.existing import open_existing_store, open_followed_log
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.log_lines import configure_logs
from tidegate_runtime.settings_texts import BadSource
from tidegate_storage.objects.ownership import check_owner, read_owner

from ...tools.proof import LOOKS
from ...tools.readability import Found
from ...tools.repair import Demands, Repair
from ..asking import agreed, check_json
from ..dev.pipeline import default_log, default_store
from ..existing_cluster import coordinator_of
from ..output.bar import BytesBar
from ..output.telling import was_told
from .bring_back import bring_back, exit_code, give_up, told
from .kept_text import KeptOutcome
from .repair_text import NOT_TOLD, Outcome, as_json_text, as_text, summary


@dataclass(frozen=True, slots=True)
class TopicRepairOptions:
    """The options as typed.  partition: None for all partitions.

    skip, bring_back, give_up: one of them at most.
    """

    topic: str
    partition: int | None
    data: Path
    object_store: str | None
    log: str | None
    skip: bool
    yes: bool
    proof_seconds: float
    even_if_many: bool
    bring_back: bool = False
    give_up: bool = False
    even_if_compacted: bool = False

    @property
    def changes(self) -> int:
        """Return how many kinds of changes are wanted."""
        return self.skip + self.bring_back + self.give_up


def run_topic_repair(options: TopicRepairOptions, *, as_json: bool) -> int:
    """Show, or skip; return the exit code."""
    configure_logs("critical")
    try:
        check_json(as_json=as_json, asks=options.changes > 0 and not options.yes)
        if options.changes > 1:
            raise BadSource("give only one of --skip, --bring-back and --give-up")
        if options.bring_back or options.give_up:
            kept = trio.run(_end_skips, options, not as_json)
            print(told(kept, brings_back=options.bring_back, as_json=as_json))
            return exit_code(kept)
        outcome = trio.run(_repair, options, not as_json)
    except Exception as error:
        if not was_told(error):
            raise
        return NOT_TOLD
    print(as_json_text(outcome) if as_json else summary(outcome, skip=options.skip))
    return outcome.exit_code


@dataclass(frozen=True, slots=True)
class _Opened:
    coordinator: Coordinator
    repair: Repair


@asynccontextmanager
async def _opened(options: TopicRepairOptions) -> AsyncGenerator[_Opened, None]:
    """Open log and store of a cluster.

    Check that log and store belong to the same cluster.  Otherwise all objects would seem to be
    missing.
    """
    async with AsyncExitStack() as stack:
        log = await open_followed_log(options.log or default_log(options.data))
        stack.push_async_callback(log.aclose)
        fresh = partial(open_existing_store, options.object_store or default_store(options.data))
        store = fresh()
        stack.push_async_callback(store.aclose)
        rng = Random(os.urandom(32))
        coordinator = await coordinator_of(log, rng)
        state = coordinator.state
        if await read_owner(store) is None:
            raise BadSource(
                "the object store belongs to no cluster: give the same --data or --object-store as"
                " the gateways have"
            )
        await check_owner(store, state.cluster_id, timeline=state.timeline)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(coordinator.run)
        repair = Repair(
            coordinator,
            store,
            fresh=fresh,
            demands=Demands(options.proof_seconds, options.even_if_many),
            rng=rng,
            software_version=version("tidegate"),
        )
        yield _Opened(coordinator, repair)
        nursery.cancel_scope.cancel()


async def _end_skips(options: TopicRepairOptions, says: bool) -> KeptOutcome:
    async with _opened(options) as opened:
        topic, numbers = _partitions(opened.coordinator, options)
        outcome = KeptOutcome(topic.name)
        if options.give_up:
            await give_up(opened.repair, outcome, numbers, yes=options.yes, says=says)
            return outcome
        even = options.even_if_compacted
        await bring_back(
            opened.repair, outcome, numbers, yes=options.yes, even_if_compacted=even, says=says
        )
        return outcome
    raise AssertionError


async def _repair(options: TopicRepairOptions, says: bool) -> Outcome:
    async with _opened(options) as opened:
        topic, numbers = _partitions(opened.coordinator, options)
        outcome = await _look(opened, topic, numbers, says)
        if not options.skip or not outcome.left:
            return outcome
        if outcome.found.looks_like_the_wrong_store and not options.even_if_many:
            return outcome  # the summary gives the reason
        on_look = _say_look if says else _say_nothing
        outcome.refusal = await opened.repair.prove(outcome.left, outcome.found, on_look)
        if outcome.refusal is not None:
            return outcome
        lost = sum(each.lost for each in outcome.left)
        question = f"Skip {lost} records{'' if outcome.keeps else ' for good'}?"
        if await agreed(question, yes=options.yes):
            await _skip(opened.repair, outcome, numbers, says)
            outcome.kept = opened.repair.kept(numbers)
        return outcome
    raise AssertionError


def _say_look(number: int, pause: float) -> None:
    waits = f"in {pause:.0f} s" if pause else "now"
    print(f"Proving the loss: look {number} of {LOOKS}, {waits}", file=sys.stderr, flush=True)


def _say_nothing(number: int, pause: float) -> None:
    """Print nothing; for --json."""


async def _look(opened: _Opened, topic: Topic, numbers: list[int], says: bool) -> Outcome:
    partitions = opened.coordinator.state.partitions
    total = sum(partitions[number].size_bytes for number in numbers)
    with BytesBar("reading", total, is_shown=says) as bar:
        found = await opened.repair.look(numbers, bar.add)
    keeps = opened.coordinator.state.metadata_version >= KEPT_SKIPS
    kept = opened.repair.kept(numbers)
    outcome = Outcome(topic, found, left=found.unreadable, kept=kept, keeps=keeps)
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


async def _skip(repair: Repair, outcome: Outcome, numbers: list[int], says: bool) -> None:
    def show(found: Found) -> None:
        if says:
            print(as_text(Outcome(outcome.topic, found)), flush=True)

    skipped = await repair.skip(outcome.left, numbers, show)
    outcome.skipped, outcome.left = skipped.done, skipped.left
    outcome.found = skipped.found or outcome.found
    outcome.refusal = skipped.refusal
