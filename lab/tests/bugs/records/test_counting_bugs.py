"""The simulator must find gateways whose metrics differ from what clients got."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.counting.error_counts import ErrorCounts
from tidegate_gateway.gateway_counters import GatewayCounters
from tidegate_gateway.requests.records.produce import Produce
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.histograms import Histogram

DIFFER = {"metrics differ from answers"}


def counts_no_errors_of_fetches(patch: pytest.MonkeyPatch) -> None:
    real = ErrorCounts.note

    def note(self: ErrorCounts, api_key: int, response: Any) -> None:
        if api_key != ApiKey.FETCH:
            real(self, api_key, response)

    patch.setattr(ErrorCounts, "note", note)


def counts_no_failed_produce(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Produce, "note_answer", lambda *_: None)


def counts_answers_twice(patch: pytest.MonkeyPatch) -> None:
    real = GatewayCounters.answered

    def answered(self: GatewayCounters, *times: Any) -> None:
        real(self, *times)
        real(self, *times)

    patch.setattr(GatewayCounters, "answered", answered)


def loses_slow_requests(patch: pytest.MonkeyPatch) -> None:
    real = Histogram.add

    def add(self: Histogram, seconds: float) -> None:
        if seconds < 0.2:
            real(self, seconds)

    patch.setattr(Histogram, "add", add)


@pytest.mark.parametrize(
    ("plant", "first_seed"),
    [
        (counts_no_errors_of_fetches, 2),
        (counts_no_failed_produce, 1),
        (counts_answers_twice, 1),
        (loses_slow_requests, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_counters_are_found(
    plant: Plant, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, DIFFER, first_seed, monkeypatch)
