"""Planted bugs of mirrored topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.client import fetched_batches
from tidegate_coordination.client.fetched_batches import FetchedBatch
from tidegate_coordination.rules.records import mirrored_batches
from tidegate_coordination.rules.records.mirrored_batches import ABORT, COMMIT, MirroredBatch
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import TopicTable
from tidegate_gateway.migration.mirror import fetch_round, link
from tidegate_gateway.migration.mirror.fetch_round import Asked
from tidegate_gateway.migration.mirror.link import LinkMirror
from tidegate_gateway.migration.mirror.partition import PartitionMirror
from tidegate_gateway.migration.mirror.walks import MirrorWalks
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.link_plan import MALFORMED


def takes_stale_answers(patch: pytest.MonkeyPatch) -> None:
    """After the mirror went back, it takes the answer to a fetch that began at a later offset."""
    patch.setattr(Asked, "is_stale", property(lambda self: self.mirror.is_lost))


def follows_any_end(patch: pytest.MonkeyPatch) -> None:
    """A batch above the partition's end always counts as one after a gap."""

    def follows(self: MirroredBatch, end: int) -> bool:
        return end <= self.base_offset < self.next_offset

    patch.setattr(MirroredBatch, "follows", follows)


def mixes_up_markers(patch: pytest.MonkeyPatch) -> None:
    """An abort counts as a commit, and the other way round."""
    real = fetched_batches._kind

    def kind(*arguments: Any) -> int:
        return {ABORT: COMMIT, COMMIT: ABORT}.get(real(*arguments), real(*arguments))

    patch.setattr(fetched_batches, "_kind", kind)


def forgets_markers(patch: pytest.MonkeyPatch) -> None:
    """Transactions of the source never end."""
    patch.setattr(Partition, "_fold_mirrored_marker", lambda self, *arguments: None)


def begins_at_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """The mirror begins at the source's log start, not at the batch that contains the log start."""

    async def first_batch(self: LinkMirror, mirror: PartitionMirror, start: int) -> int:
        return start

    patch.setattr(LinkMirror, "_first_batch", first_batch)


def believes_an_empty_answer(patch: pytest.MonkeyPatch) -> None:
    """If an answer has no batches of a partition, the mirror assumes that none are left."""
    patch.setattr(link, "ROUNDS_TO_BELIEVE", 1)
    patch.setattr(fetch_round, "MIN_BYTES", 1)
    patch.setattr(fetch_round, "MAX_BYTES", 1)
    real = LinkMirror._take

    async def take(self: LinkMirror, *arguments: Any, is_empty: bool) -> None:
        return await real(self, *arguments, is_empty=True)

    patch.setattr(LinkMirror, "_take", take)


def follows_no_log_start(patch: pytest.MonkeyPatch) -> None:
    """Records that the source deleted stay here."""
    patch.setattr(LinkMirror, "_later_start", lambda self, mirror: [])


def forgets_steps(patch: pytest.MonkeyPatch) -> None:
    """The state gets no events about transactions and epochs."""
    patch.setattr(mirrored_batches.MirrorJudge, "events", lambda self: ())


def tells_epochs_of_before(patch: pytest.MonkeyPatch) -> None:
    """Metadata keeps the leader epoch that a copy had at the first request."""
    patch.setattr(TopicTable, "fold_epoch", lambda self, topic_id: None)


def copies_unseen(patch: pytest.MonkeyPatch) -> None:
    """A batch with a true CRC is copied, whatever its records are."""

    async def walked(self: MirrorWalks, batches: Sequence[FetchedBatch]) -> Sequence[FetchedBatch]:
        return batches

    patch.setattr(MirrorWalks, "walked", walked)


def is_malformed(plan: FaultPlan) -> bool:
    return MALFORMED in plan.links.kinds


def has_links(plan: FaultPlan) -> bool:
    return plan.links.is_on


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (takes_stale_answers, {"mirror", "mirror read"}, 32),
        (follows_any_end, {in_rules("is written to"), "mirror", "mirror read"}, 69),
        (mixes_up_markers, {"invariant 9", "invariant 12"}, 1),
        (forgets_markers, {in_rules("has open"), "invariant 9", "not mirrored"}, 1),
        (begins_at_the_log_start, {"not mirrored"}, 12),
        (believes_an_empty_answer, {"mirror", "mirror read"}, 1),
        (follows_no_log_start, {"not mirrored"}, 1),
        (forgets_steps, {in_rules("has open"), "invariant 9", "invariant 12"}, 1),
        (tells_epochs_of_before, {in_rules("and tells"), "mirror read"}, 13),
    ],
)
def test_the_simulator_finds_it(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(untried(plant), expected, first_seed, monkeypatch, has_links, links=True)


def test_the_simulator_finds_a_malformed_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = untried(copies_unseen)
    must_be_found(plant, {"mirror", "mirror read"}, 27, monkeypatch, is_malformed, links=True)
