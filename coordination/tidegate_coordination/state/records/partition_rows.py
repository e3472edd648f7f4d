"""The row of a partition in a snapshot."""

from __future__ import annotations

from typing import Any

from ..long_values import SLICE_ROWS, LongList, LongValue, sorted_slices
from .aborted import Aborted
from .cleanings import Cleaning
from .epochs import NO_EPOCHS, EpochStart
from .kept import KeptRuns
from .open_spans import OpenSpans
from .partitions import NO_RUNS, Partition
from .producers import KeptBatch, ProducerState
from .runs import Runs


def encode_partition(partition: Partition, *, is_wide: bool) -> list[object] | LongValue:
    """Return all of a partition as builtins.

    Only snapshots from format 6 on can have epochs, from format 7 on transactions, and from
    format 13 on kept runs.
    is_wide: see Runs.encode().
    """
    kept, runs, epochs = partition.kept, partition.runs, partition.epochs
    has_transactions = partition.open is not None or bool(partition.aborted) or kept is not None
    fields: list[object] = [
        partition.number,
        partition.topic_id,
        partition.index,
        partition.log_start,
        partition.next_offset,
        partition.size_bytes,
        runs.encode(is_wide=is_wide) if runs is not NO_RUNS else None,
        _producers(partition.producers),
        partition.cleanings,
        *((epochs,) if epochs or has_transactions else ()),
        *(_transactions(partition) if has_transactions else ()),
        *((kept.encode(is_wide=is_wide),) if kept is not None else ()),
    ]
    is_long = any(isinstance(each, LongList) for each in fields)
    return LongValue.of_row(fields) if is_long else fields


def _producers(producers: dict[int, ProducerState]) -> list[object] | LongList:
    if len(producers) <= SLICE_ROWS:
        return [_producer_row(*each) for each in sorted(producers.items())]
    return LongList(len(producers), sorted_slices(producers.copy(), _producer_row))


def _producer_row(producer_id: int, state: ProducerState) -> list[object]:
    batches = [list(each) for each in state.batches]
    return [producer_id, state.epoch, batches, state.last_write_ms]


def _transactions(partition: Partition) -> tuple[object, object]:
    opened, aborted = partition.open, partition.aborted
    return opened.encode() if opened else [], aborted.encode() if aborted else None


def decode_partition(row: list[Any]) -> Partition:
    """Return the partition that encode_partition() was called on."""
    number, topic_id, index, log_start, next_offset, size_bytes, runs, producers, *more = row
    partition = Partition(number, topic_id, index, log_start, next_offset, size_bytes)
    if runs is not None:
        partition.runs = Runs.decode(runs)
    for producer_id, epoch, batches, last_write_ms in producers:
        kept = tuple(KeptBatch(*each) for each in batches)
        partition.producers[producer_id] = ProducerState(epoch, kept, last_write_ms)
    if more:  # format 2 has none
        partition.cleanings = tuple(Cleaning(*each) for each in more[0])
    partition.epochs = tuple(EpochStart(*each) for each in more[1]) if more[1:] else NO_EPOCHS
    if more[2:]:
        _decode_transactions(partition, *more[2:4])
    if more[4:]:
        partition.kept = KeptRuns.decode(more[4])
    return partition


def _decode_transactions(
    partition: Partition, opened: list[Any], aborted: list[Any] | None
) -> None:
    if opened:
        partition.open = OpenSpans((producer_id, offset) for producer_id, offset in opened)
    partition.aborted = Aborted.decode(aborted) if aborted is not None else None
