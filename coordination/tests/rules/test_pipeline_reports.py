"""Reports of the pipeline: the last few are kept, in bounded size, only of live incarnations."""

from __future__ import annotations

from tests.rules.test_wal_rules import World
from tidegate_coordination.events.cluster import GatewayExpired
from tidegate_coordination.events.pipeline import PipelineReport
from tidegate_coordination.rules.pipeline_reports import MAX_TEXT, ReportPipeline
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.pipeline_reports import KEPT_REPORTS


def report(merges: int, error: str = "", **dropped: int) -> PipelineReport:
    return PipelineReport(merges, 1, 2, 3, 4, 5, 6, error, dropped)


def tell(world: World, what: PipelineReport) -> bool:
    decided = ReportPipeline(1, what).decide(world.view())
    world.apply(*decided.events)
    world.check_replay()
    return decided.answer


def test_the_last_reports_are_kept_also_in_a_snapshot() -> None:
    world = World()
    for number in range(KEPT_REPORTS + 3):
        assert tell(world, report(number, changed=number))
    rows = world.state.pipeline_reports.rows
    assert [each.merges for _, _, each in rows] == list(range(3, KEPT_REPORTS + 3))
    assert rows[-1] == (1, world.state.log_time_ms, report(KEPT_REPORTS + 2, changed=12))
    assert ClusterState.decode(world.state.encode()).pipeline_reports.rows == rows


def test_texts_and_numbers_are_bounded() -> None:
    world = World()
    long = "x" * (MAX_TEXT + 50)
    many = {f"{number:02}{long}": 1 for number in range(40)}
    assert tell(world, PipelineReport(1, 1, 1, 1 << 70, 1 << 70, 1, 1, long, many))
    [(_, _, kept)] = world.state.pipeline_reports.rows
    assert len(kept.last_error) == MAX_TEXT
    assert (len(kept.dropped), max(map(len, kept.dropped))) == (16, MAX_TEXT)
    assert kept.records == kept.size_bytes == (1 << 63) - 1


def test_the_dead_say_nothing() -> None:
    world = World()
    world.apply(GatewayExpired(1))
    decided = ReportPipeline(1, report(1)).decide(world.view())
    assert (decided.answer, decided.events) == (False, ())
