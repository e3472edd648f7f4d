"""The harness judges others, so its own judgements are tested: each with a case it must refuse."""

from __future__ import annotations

import re

import pytest
from harness.baseline import score
from harness.java_tools import verifiable
from harness.java_tools.normalise import apis, normal
from harness.java_tools.script import Call
from harness.report import Outcome, Report
from harness.toolbox import Printed

EXCLUDED = [(re.compile("Txn"), "not yet")]


def test_score_counts_only_the_baseline() -> None:
    results = {"TestA": True, "TestB": False, "TestNew": False, "TestTxnDone": True}
    outcomes = score(["TestA", "TestB", "TestC", "TestTxn", "TestTxnDone"], results, EXCLUDED)
    assert [outcome.status for outcome in outcomes] == [
        "passed", "failed", "failed", "excluded", "passed"
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "fails"), [("failed", True), ("excluded", False)])
def test_only_failures_fail_a_report(status: str, fails: bool) -> None:
    outcome = Outcome("x", "failed" if status == "failed" else "excluded")
    assert Report("s", "kafka", [Outcome("y", "passed"), outcome], 1.0).failed == fails


def lines(text: str, call: Call | None = None) -> object:
    return normal(call or Call("topics", ""), Printed(0, text, ""))["stdout"]


def test_what_differs_between_runs_is_masked() -> None:
    one = "Topic: t\tTopicId: p2cMkb8fRQqN2kJ8KjtadA\nhost localhost:19092 (id: 1)\n"
    two = "Topic: t  TopicId: FPPhhoUpR36ACUfppg4G-g\nhost 127.0.0.1:5 (id: 1)\n"
    assert lines(one) == lines(two)


def test_what_matters_is_kept() -> None:
    assert lines("jt-one:0:12") != lines("jt-one:0:11")
    assert lines("a\nb") != lines("b\na")
    assert lines("a\nb", Call("topics", "", view="sorted")) == ["a", "b"]
    assert lines("12 ms", Call("x", "", view="figures")) == ["<n> ms"]


def test_apis_are_read_with_and_without_a_range() -> None:
    printed = ["Fetch(1): 4 to 18 [usable: 18],", "DescribeCluster(60): 0 [usable: 0],"]
    offered = [*printed, "PushTelemetry(72): UNSUPPORTED"]
    assert apis(offered) == ["Fetch(1): 4 to 18", "DescribeCluster(60): 0 to 0"]


def sent(count: int) -> list[dict[str, object]]:
    return [
        {
            "name": "producer_send_success",
            "partition": i % verifiable.PARTITIONS,
            "offset": i // verifiable.PARTITIONS,
            "value": str(i),
        }
        for i in range(count)
    ]


def read(count: int) -> list[dict[str, object]]:
    return [{**event, "name": "record_data"} for event in sent(count)]


def test_a_complete_run_has_no_faults() -> None:
    assert verifiable.producer_faults(sent(verifiable.RECORDS)) == []
    assert verifiable.consumer_faults(sent(30), read(30)) == []


@pytest.mark.parametrize(
    ("consumed", "fault"),
    [
        (read(29), "lost"),
        ([*read(30), read(30)[-1]], "twice"),
        (read(30)[::-1], "in order"),
        ([*read(29), {**read(30)[-1], "value": "other"}], "not what was sent"),
        ([*read(30), {"name": "offsets_committed", "success": False}], "commits failed"),
    ],
)
def test_faults_of_a_consumer_are_found(consumed: list[dict[str, object]], fault: str) -> None:
    assert any(fault in found for found in verifiable.consumer_faults(sent(30), consumed))


def test_faults_of_a_producer_are_found() -> None:
    assert verifiable.producer_faults(sent(verifiable.RECORDS - 1))
    assert verifiable.producer_faults([*sent(verifiable.RECORDS)][::-1])
