"""Planted bugs of transactional ids that gateways forward, and that move in units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.state.migration.source_groups import LinkGroupTable
from tidegate_gateway.migration.units.group_move import group_at_source
from tidegate_gateway.requests.transactions.forwarded import ForwardedEndTxn

JUDGED = {"remote transaction"}


def commits_what_was_to_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ForwardedEndTxn._asked

    def asked(self: Any, call: Any, request: Any, key: str, passes: int) -> Any:
        return real(self, call, replace(request, committed=True), key, passes)

    monkeypatch.setattr(ForwardedEndTxn, "_asked", asked)


def leaves_offsets_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without(*parts: Any) -> Any:
        found = await group_at_source(*parts)
        if isinstance(found, str):
            return found
        return found._replace(group=replace(found.group, offsets=()))

    monkeypatch.setattr("tidegate_gateway.migration.units.at_source.group_at_source", without)


def forwards_ids_that_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkGroupTable, "_is_id_here", lambda _self, _name: False)


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (commits_what_was_to_be_aborted, JUDGED, 1),
        (leaves_offsets_behind, {"wrong staged offset"}, 1),
        (
            forwards_ids_that_have_moved,
            {in_rules("is looked for"), *JUDGED, "the run broke off", "stuck", "not mirrored"},
            1,
        ),
    ],
)
def test_planted_bugs_of_units_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, units=True)
