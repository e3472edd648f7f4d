"""The simulator must find gateways that take malformed batches.

It must also find gateways that refuse sound batches because of malformed ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_gateway.produce.record_checks import RecordChecks
from tidegate_gateway.produce.refusals import BatchRefused
from tidegate_gateway.requests.records.produce import Produce
from tidegate_gateway.work.fair_pool import FairPool
from tidegate_gateway.work.fair_turns import FairTurns
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.record_walk import RecordWalk
from tidegate_protocol.records import read_header
from tidegate_simulation.plans.faults import FaultPlan


def does_not_walk_compressed_batches(patch: pytest.MonkeyPatch) -> None:
    real = RecordChecks.accept_nowait

    def accept(self: Any, settings: Any, batch: Any, header: Any, now_ms: int) -> Any:
        if header.codec and settings.compression_type == "producer":
            return batch, header, 0
        return real(self, settings, batch, header, now_ms)

    patch.setattr(RecordChecks, "accept_nowait", accept)


def believes_the_count_of_a_header(patch: pytest.MonkeyPatch) -> None:
    """A walk that ends early is taken for a whole one."""
    patch.setattr(RecordChecks, "accept_nowait", _without(RecordChecks.accept_nowait))


def _without(real: Any) -> Any:
    def accept(self: Any, settings: Any, batch: Any, header: Any, now_ms: int) -> Any:
        walk = RecordWalk(header.record_count, header.base_timestamp)
        if not header.codec:
            try:
                walk.feed(batch[61:])
            except InvalidBatch:
                return real(self, settings, batch, header, now_ms)
            return batch, header, 0
        return real(self, settings, batch, header, now_ms)

    return accept


def decompresses_without_a_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordChecks, "_room", lambda self, settings, size_bytes: 1 << 30)


class _NoOne:
    """A batch that no request waits for."""

    waiting_client = None

    def settle(self, outcome: BatchOutcome) -> None:
        pass


def stores_what_it_refuses(patch: pytest.MonkeyPatch) -> None:
    real = Produce._start_partition

    async def start(self: Any, received: Any, request: Any, topic: Any, data: Any, to: Any) -> None:
        await real(self, received, request, topic, data, to)
        if to.error_code == ErrorCode.INVALID_RECORD:
            batch = memoryview(bytearray(data.records))
            header = read_header(batch)
            if header.record_count > 0:
                self.writer.append(topic.topic_id, data.index, batch, header, _NoOne(), 0)

    patch.setattr(Produce, "_start_partition", start)


def answers_another_partition(patch: pytest.MonkeyPatch) -> None:
    real = Produce._start_partition

    async def start(self: Any, received: Any, request: Any, topic: Any, data: Any, to: Any) -> None:
        await real(self, received, request, topic, data, to)
        first = received.pending.response.responses[0].partition_responses[0]
        if to.error_code == ErrorCode.INVALID_RECORD and first is not to:
            first.error_code, to.error_code = to.error_code, ErrorCode.NONE

    patch.setattr(Produce, "_start_partition", start)


def refuses_all_of_a_request(patch: pytest.MonkeyPatch) -> None:
    """A malformed batch also fails the batches after it in the request."""
    real = Produce._checked

    async def checked(self: Any, topic: Any, records: Any, received: Any) -> Any:
        rows = [
            each
            for topic in received.pending.response.responses
            for each in topic.partition_responses
        ]
        if any(each.error_code == ErrorCode.INVALID_RECORD for each in rows):
            raise BatchRefused(ErrorCode.INVALID_RECORD, "")
        return await real(self, topic, records, received)

    patch.setattr(Produce, "_checked", checked)


def names_no_records(patch: pytest.MonkeyPatch) -> None:
    real = BatchRefused.__init__
    patch.setattr(BatchRefused, "__init__", lambda self, code, text, _=(): real(self, code, text))


def takes_what_no_thread_looked_at(patch: pytest.MonkeyPatch) -> None:
    real = RecordChecks.accept

    async def accept(self: Any, settings: Any, batch: Any, header: Any, client: Any) -> Any:
        try:
            return await real(self, settings, batch, header, client)
        except BatchRefused as refused:
            if refused.code == ErrorCode.NOT_ENOUGH_REPLICAS:
                return batch, header, 0
            raise

    patch.setattr(RecordChecks, "accept", accept)


def loses_a_turn_without_a_thread(patch: pytest.MonkeyPatch) -> None:
    """A client whose job found no thread counts for ever as one with a running job."""
    real = FairPool._start_next

    def start_next(self: Any) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(FairTurns, "done", lambda self, client: None)
            real(self)

    patch.setattr(FairPool, "_start_next", start_next)


def has_malformed(plan: FaultPlan, *, lacks_threads: bool = False) -> bool:
    return plan.malformed.is_on and (plan.malformed.no_thread > 0 or not lacks_threads)


lacks_threads = partial(has_malformed, lacks_threads=True)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned"),
    [
        (does_not_walk_compressed_batches, {"malformed batch read"}, 1, has_malformed),
        (believes_the_count_of_a_header, {"malformed batch read"}, 2, has_malformed),
        (decompresses_without_a_bound, {"malformed batch taken"}, 2, has_malformed),
        (stores_what_it_refuses, {"malformed batch read"}, 1, has_malformed),
        (answers_another_partition, {"sound batch refused"}, 1, has_malformed),
        (refuses_all_of_a_request, {"sound batch refused"}, 1, has_malformed),
        (names_no_records, {"wrong refusal"}, 9, has_malformed),
        (takes_what_no_thread_looked_at, {"malformed batch read"}, 3, lacks_threads),
        (loses_a_turn_without_a_thread, {"turn lost"}, 5, lacks_threads),
    ],
)
def test_planted_bugs_of_malformed_batches_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, malformed=True)
