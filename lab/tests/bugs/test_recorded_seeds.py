"""Recorded worlds of planted bugs, and the search for them."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest

from tests.worlds import bug_search, planted_bugs, recorded_seeds, rule_search, seed_search
from tests.worlds.planted_bugs import SEARCH_SECONDS, must_be_found
from tests.worlds.recorded_seeds import all_bugs, record, worlds_of
from tests.worlds.rule_search import find_in_rules, in_rules
from tests.worlds.small_worlds import OPERATIONS, SmallWorld
from tidegate_simulation.clients.producers import IdempotentProducer
from tidegate_simulation.decisions.run import Outcome
from tidegate_simulation.decisions.world import Violation
from tidegate_simulation.run import plan_of, simulate

BUGS = Path(__file__).parent
NAME = "test_recorded_seeds complains_of_a_client"
SEEN = "seen"
BLIND_SEED = 6
CLIENTS = ("producer 1", "reader 1")


def complains_of_a_client(patch: pytest.MonkeyPatch) -> None:
    real = IdempotentProducer.run

    async def run(self: IdempotentProducer) -> None:
        if self.client.name == "producer 1" and self.client.world.seed != BLIND_SEED:
            self.client.world.complain(SEEN, "")
        await real(self)

    patch.setattr(IdempotentProducer, "run", run)


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Use an empty file of records, and search in the way `recorded`, as `./check` does."""
    path = tmp_path / "recorded_seeds.json"
    path.write_text("{}")
    monkeypatch.setattr(recorded_seeds, "PATH", path)
    monkeypatch.setattr(bug_search, "way", "recorded")
    return path


def test_each_record_belongs_to_a_planted_bug() -> None:
    sources = {each.stem: each.read_text() for each in BUGS.glob("*/test_*.py")}
    for bug in all_bugs():
        file, plant = bug.split()
        assert plant.removesuffix("_unwatched") in sources.get(file, ""), bug
        assert worlds_of(bug), bug


def test_a_small_world_has_the_clients_and_faults_that_stay() -> None:
    world = SmallWorld(3, 20, CLIENTS, ("crash",))
    whole = plan_of(world.seed)
    with world.held():
        report = simulate(world.seed, world.operations)
        assert set(plan_of(world.seed).kinds) == set(whole.kinds) & {"crash"}
    assert not report.violations
    assert len(whole.kinds) > 1
    producers = {each for each in ("producer 1", "producer 2") if each in str(report.trace)}
    assert producers == {"producer 1"}


def test_what_its_worlds_do_not_show_is_looked_for_in_many_seeds(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blind, seeing = SmallWorld(7, 5, ("reader 1",), ()), SmallWorld(7, 5, CLIENTS, ())
    record(NAME, [blind])
    must_be_found(complains_of_a_client, {SEEN}, 7, monkeypatch, operations=1)
    printed = capsys.readouterr().out
    assert "--planted-bugs=record 'lab/tests/bugs/test_" in printed
    assert printed.endswith("found in seed 7, run 1\n")
    record(NAME, [blind, seeing])
    must_be_found(complains_of_a_client, {SEEN}, 7, monkeypatch)
    assert "found in seed" not in capsys.readouterr().out


def test_the_wide_search_names_a_record_that_shows_its_bug_no_more(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bug_search, "way", "wide")
    blind, seeing = SmallWorld(7, 5, ("reader 1",), ()), SmallWorld(7, 5, CLIENTS, ())
    record(NAME, [blind])
    with pytest.raises(pytest.fail.Exception, match="--planted-bugs=record"):
        must_be_found(complains_of_a_client, {SEEN}, 7, monkeypatch, operations=1)
    record(NAME, [blind, seeing])
    must_be_found(complains_of_a_client, {SEEN}, 7, monkeypatch, operations=1)


def test_a_bug_of_rules_is_looked_for_in_the_second_tier(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rule_search, "SEEDS", 1)
    expected = {SEEN, in_rules(SEEN)}
    with pytest.raises(pytest.fail.Exception, match="not found in 1 seeds of the second tier"):
        must_be_found(complains_of_a_client, expected, 7, monkeypatch)
    monkeypatch.setattr(bug_search, "way", "wide")
    must_be_found(complains_of_a_client, expected, 7, monkeypatch, operations=1)
    assert capsys.readouterr().out == "found in seed 7, run 1\n"


def test_a_recorded_seed_of_the_second_tier_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(seed: int, _: int) -> Outcome:
        found = (Violation(1, SEEN),) if seed in (3, 9) else ()
        return Outcome(seed, 1, 1, 0, found, {}, {})

    monkeypatch.setattr(rule_search, "run", run)
    assert find_in_rules(nullcontext, [SEEN]) == 3
    assert find_in_rules(nullcontext, [SEEN], [9]) == 9
    assert find_in_rules(nullcontext, [SEEN], [8]) == 3


def test_a_hint_that_shows_nothing_leads_to_other_seeds(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for hint, is_searched in ((BLIND_SEED, True), (7, False)):
        record(NAME, [SmallWorld(hint, 1)])
        must_be_found(complains_of_a_client, {SEEN}, 7, monkeypatch, operations=1)
        assert ("found in seed 7, run 1" in capsys.readouterr().out) == is_searched


def test_a_search_ends_by_the_clock_also_on_a_busy_machine(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is limited by the clock, not by CPU time, as is pytest's time-out of a test."""
    looks = count(step=SEARCH_SECONDS)
    monkeypatch.setattr(planted_bugs, "monotonic", lambda: next(looks))
    with pytest.raises(pytest.fail.Exception, match="not found in 1 runs of 400 s"):
        must_be_found(complains_of_a_client, {"never seen"}, 7, monkeypatch, operations=1)


def test_the_search_leaves_out_what_the_bug_does_not_need(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("test_of_another bug", [SmallWorld(1)])
    monkeypatch.setattr(bug_search, "way", "record")
    monkeypatch.setattr(seed_search, "BUDGET_SECONDS", 1.0)
    must_be_found(complains_of_a_client, {SEEN}, 3, monkeypatch)
    assert all_bugs() == ["test_of_another bug", NAME]
    world = worlds_of(NAME)[0]
    assert world.operations < OPERATIONS
    assert world.clients is not None
    assert "producer 1" in world.clients
    assert world.faults == ()
