"""The simulator must find proposals that act late; see planted_bugs.py and decision 22.

Several checks stop a late proposal, so each plant also removes the other checks that would hide its
bug.  Only coordination's test_forwarding_kept.py shows that refusals and failures are kept:
simulated gateways commit so often that a refusal is acknowledged before a copy of its proposal
arrives.
"""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.route import DecidesHere
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion, DeletionRefusal
from tidegate_coordination.state.name_changes import NameChanges
from tidegate_gateway.requests.records.delete_records import DeleteRecordsHandler
from tidegate_gateway.requests.topics import delete_topics
from tidegate_gateway.topics.looks import Look
from tidegate_simulation import actors
from tidegate_simulation.plans import beginnings
from tidegate_simulation.plans.faults import FaultPlan

LATE = {"acted late"}


def _always_at_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(actors, "LATE_SHARE", 1.0)


def _decides_late_ones(patch: pytest.MonkeyPatch) -> None:
    """A withdrawn proposal continues, without a deadline."""
    patch.setattr(DecidesHere, "withdraw", lambda *_: None)
    patch.setattr(Forwarder, "withdraw", lambda *_: None)
    patch.setattr(Coordinator, "_deadline_ms", lambda _: 0)


def decides_again_what_was_withdrawn(patch: pytest.MonkeyPatch) -> None:
    _always_at_work(patch)
    _decides_late_ones(patch)
    patch.setattr(NameChanges, "is_since", lambda *_: False)


def looks_names_up_when_it_decides(patch: pytest.MonkeyPatch) -> None:
    _always_at_work(patch)
    _decides_late_ones(patch)
    patch.setattr(NameChanges, "is_topic_since", lambda *_: False)
    patch.setattr(Look, "topic_ids", lambda *_: {})
    patch.setattr(delete_topics, "_stored_key", lambda asked, _: asked)


def _proposes_what_it_is_asked(
    self: DeleteRecordsHandler, deletions: list[Deletion]
) -> Awaitable[list[int | DeletionRefusal]]:
    policy = self.cluster.default_of("cleanup.policy")
    return self.coordinator.propose(DeleteRecords(deletions, policy))


def takes_all_records_for_those_there_are_later(patch: pytest.MonkeyPatch) -> None:
    """The gateway resolves -1 to an offset when it decides, however late that is."""
    patch.setattr(beginnings, "PARTS_SHARE", 1.0)
    _decides_late_ones(patch)
    patch.setattr(DeleteRecordsHandler, "_delete", _proposes_what_it_is_asked)


def loses_the_log(plan: FaultPlan) -> bool:
    return bool({"isolate", "log.hung", "log_outage"} & set(plan.kinds))


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "first_seed"),
    [
        (decides_again_what_was_withdrawn, 94),
        (looks_names_up_when_it_decides, 94),
        (takes_all_records_for_those_there_are_later, 28),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_late_proposals_are_found(
    plant: Plant, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, LATE, first_seed, monkeypatch, loses_the_log)
