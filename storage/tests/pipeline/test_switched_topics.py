"""A topic that was switched from its source is not compacted while it can still return."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.links.test_switch_rules import switched
from tidegate_coordination.rules.migration.switches import FinishSwitches
from tidegate_pipeline.planning import plan
from tidegate_pipeline.planning.plan import Plan


def test_compaction_begins_once_the_source_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    world, planned = switched(), Mock(return_value=None)
    monkeypatch.setattr(plan, "compaction_of", planned)
    settings_of = Mock(return_value=Mock(is_compacted=True))
    plans = Plan(
        world.state,
        Mock(),
        settings_of=settings_of,
        is_paused=Mock(),
        next_number=Mock(),
        under_way=Mock(merged_from={}),
    )
    assert not plans.add_compaction(world.partition().number)
    planned.assert_not_called()
    world.propose(FinishSwitches("src"))
    plans.add_compaction(world.partition().number)
    planned.assert_called_once()
