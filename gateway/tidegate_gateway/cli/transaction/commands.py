"""Runs `tidegate transaction list`, `describe` and `abort`, from any machine that reaches the log.

The command reads the metadata log, and appends an abort itself.  So it works even while no gateway
answers.  Kafka's `kafka-transactions.sh` works, too, but needs gateways.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.transactions.ending import AbortTransaction
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.transactions.rows import TransactionState
from tidegate_runtime.settings_texts import BadSource

from ...transactions.producer_ids import ProducerIds
from ...transactions.steps import TransactionSteps
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from .rows import Details, Filters, details_of, rows_of
from .text import (
    aborted_json,
    aborted_text,
    describe_json,
    describe_text,
    list_json,
    list_text,
    name_text,
    question,
)

_STATES: Final = {each.shown.lower(): each for each in TransactionState}


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options as typed."""

    states: tuple[str, ...] = ()
    longer_than_seconds: int | None = None
    topic: str | None = None
    partition: int | None = None


def run_list(cluster: ClusterOptions, options: ListOptions, *, as_json: bool) -> int:
    """Print the ids that pass the filters; return the exit code."""

    async def work() -> int:
        states = frozenset(map(_state, options.states))
        if options.partition is not None and options.topic is None:
            raise BadSource("--partition needs the --topic that has the partition")
        async with opened_cluster(cluster) as coordinator:
            rows = rows_of(coordinator.state, _filters(coordinator.state, options, states))
        is_filtered = options != ListOptions()
        print(list_json(rows) if as_json else list_text(rows, is_filtered=is_filtered))
        return 0

    return run_told(work)


def _state(typed: str) -> TransactionState:
    found = _STATES.get(typed.replace("-", "").lower())
    if found is None:
        known = ", ".join(each.shown for each in TransactionState)
        raise BadSource(f"--state {typed}: choose one of {known}")
    return found


def _filters(
    state: ClusterState, options: ListOptions, states: frozenset[TransactionState]
) -> Filters:
    seconds = options.longer_than_seconds
    longer_than_ms = None if seconds is None else seconds * 1000
    if options.topic is None:
        return Filters(states, longer_than_ms)
    topic = state.topics.by_name.get(options.topic)
    if topic is None:
        raise BadSource(f"there is no topic {options.topic}")
    numbers = topic.partition_numbers
    if options.partition is None:
        return Filters(states, longer_than_ms, numbers)
    if options.partition >= len(numbers):
        raise BadSource(
            f"--partition {options.partition}: {options.topic} has {len(numbers)} partitions"
        )
    return Filters(states, longer_than_ms, [numbers[options.partition]])


def run_describe(cluster: ClusterOptions, name: str, *, as_json: bool) -> int:
    """Print all facts of an id; return the exit code."""

    async def work() -> int:
        async with opened_cluster(cluster) as coordinator:
            details = _known(coordinator.state, name)
        print(describe_json(details) if as_json else describe_text(details))
        return 0

    return run_told(work)


def _known(state: ClusterState, name: str) -> Details:
    details = details_of(state, name)
    if details is None:
        raise BadSource(f"no transactional id is {name!r}; see `tidegate transaction list`")
    return details


def run_abort(cluster: ClusterOptions, name: str, *, yes: bool, as_json: bool) -> int:
    """Abort the open transaction of an id; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not yes)
        async with opened_cluster(cluster) as coordinator:
            return await _abort(coordinator, name, yes=yes, as_json=as_json)
        raise AssertionError

    return run_told(work)


async def _abort(coordinator: Coordinator, name: str, *, yes: bool, as_json: bool) -> int:
    details = _known(coordinator.state, name)
    if details.row.open_ms is None:
        return _not_aborted(details, "it has no open transaction", as_json=as_json)
    row = coordinator.state.transactions.get(name)
    assert row is not None
    if not as_json:
        print(describe_text(details), flush=True)
    if not await agreed(question(details), yes=yes):
        return _not_aborted(details, "nothing was changed", as_json=as_json)
    details = details_of(coordinator.state, name) or details
    steps = TransactionSteps(coordinator, ProducerIds(coordinator))
    answer = await steps.with_spare_id(
        partial(AbortTransaction, row.producer_id, row.epoch, began=row.began)
    )
    if answer.refusal is not None:
        return _not_aborted(details, _reason(answer.refusal), as_json=as_json)
    print(aborted_json(details, done=True) if as_json else aborted_text(details))
    return 0


def _reason(refusal: TransactionRefusal) -> str:
    if refusal is TransactionRefusal.NOT_YET:
        return f"{refusal.value}"
    return "its transaction has ended meanwhile; nothing was changed"


def _not_aborted(details: Details, reason: str, *, as_json: bool) -> int:
    if as_json:
        print(aborted_json(details, done=False))
    print(f"tidegate: {name_text(details.row)}: {reason}", file=sys.stderr)
    return NOT_DONE
