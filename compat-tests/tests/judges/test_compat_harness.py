"""The judgements of the harness, each tested with a case that it must refuse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from harness import install
from harness.java_tools import suite as java_tools
from harness.java_tools import verifiable
from harness.java_tools.normalise import apis, normal
from harness.java_tools.script import Call
from harness.report import Outcome, Report
from harness.security import SASL, sasl_address, with_ports
from harness.toolbox import Printed
from suites.baseline import EVERYTHING, passing, score
from suites.excluded import excluded, worth_a_start
from suites.franz_go import chosen
from suites.librdkafka import read_results

ROOT = Path(__file__).parents[3]
EXCLUDED = [(re.compile("Txn"), "not yet")]


def test_score_counts_only_the_baseline() -> None:
    results = {"TestA": True, "TestB": False, "TestNew": False, "TestTxnDone": True}
    outcomes = score(["TestA", "TestB", "TestC", "TestTxn", "TestTxnDone"], results, EXCLUDED)
    assert [outcome.status for outcome in outcomes] == [
        "passed", "failed", "failed", "excluded", "passed"
    ]  # fmt: skip


def test_a_pattern_chooses_tests_of_the_baseline() -> None:
    assert passing("kafka-python", re.compile("::test_transactional_")) == [
        "test_producer_integration.py::test_transactional_producer_messages",
        "test_producer_integration.py::test_transactional_producer_offsets",
    ]


def test_go_runs_the_chosen_tests_with_all_of_their_subtests() -> None:
    only = re.compile("Etl")
    assert chosen(["TestEtl", "TestEtl/range", "TestEtl2"], only) == [
        "-test.run=^(TestEtl|TestEtl2)$"
    ]
    assert chosen(["TestEtl"], EVERYTHING) == []


def test_an_excluded_test_runs_once_its_api_is_offered() -> None:
    exclusions = [
        (re.compile("^a"), "share groups (KIP-932) are not offered yet"),
        (re.compile("^b"), "never"),
    ]
    assert [worth_a_start("a", exclusions, offered) for offered in ({78, 30}, {30})] == [
        True,
        False,
    ]
    assert not worth_a_start("b", exclusions, {30})
    assert worth_a_start("c", exclusions, set())


def test_calls_of_the_script_have_names_of_their_own() -> None:
    names = [each.name for each in java_tools.SCRIPT if isinstance(each, Call)]
    assert len(names) == len(set(names))


def test_logins_have_the_port_after_the_brokers_own() -> None:
    assert with_ports(SASL, 9092)["listeners"] == "SASL_PLAINTEXT://127.0.0.1:9093"
    assert sasl_address("127.0.0.1:9092") == "127.0.0.1:9093"


@pytest.mark.parametrize(
    "suite", ["kafka-go", "librdkafka", "librdkafka-noautocreate", "librdkafka-sasl"]
)
def test_every_exclusion_is_of_a_test_that_counts(suite: str) -> None:
    tests = passing(suite)
    for pattern, _ in excluded(suite):
        assert any(pattern.search(name) for name in tests), pattern


LIBRDKAFKA = """\
[0081_admin / 1.0s] [ do_test_ListOffsets:4957: temp queue ]
[0081_admin / 1.9s] [ do_test_ListOffsets:4957: temp queue: PASS (0.93s) ]
[0081_admin / 2.0s] ================= Test 0081_admin PASSED =================
[0082_other / 2.0s] ================= Test 0082_other FAILED =================
[0083_more  / 2.0s] ================= Test 0083_more SKIPPED =================
### Test "0084_lost (do_test:187: one)" failed at 0084-lost.c:142:verify() ###
### Test "<MAIN>" failed at test.c:1950:test_wait_exit() ###
"""


def test_results_of_librdkafka() -> None:
    failed = {"0082_other": False, "0084_lost": False}
    assert read_results(LIBRDKAFKA) == {"0081_admin": True, **failed}
    assert read_results(LIBRDKAFKA, "do_test_ListOffsets")["0081_admin/do_test_ListOffsets"]
    assert read_results(LIBRDKAFKA, "temp queue")["0081_admin/temp queue"]
    assert not read_results(LIBRDKAFKA, "do_test_List")["0081_admin/do_test_List"]


@pytest.mark.parametrize(("status", "fails"), [("failed", True), ("excluded", False)])
def test_only_failures_fail_a_report(status: str, fails: bool) -> None:
    outcome = Outcome("x", "failed" if status == "failed" else "excluded")
    assert Report("s", "kafka", [Outcome("y", "passed"), outcome], 1.0).failed == fails


def lines(text: str, call: Call | None = None) -> object:
    return normal(call or Call("topics", ""), Printed(0, text, ""))["stdout"]


def test_masks_cover_the_parts_that_differ_between_runs() -> None:
    one = "Topic: t\tTopicId: p2cMkb8fRQqN2kJ8KjtadA\nhost localhost:19092 (id: 1)\n"
    two = "Topic: t  TopicId: FPPhhoUpR36ACUfppg4G-g\nhost 127.0.0.1:5 (id: 1)\n"
    assert lines(one) == lines(two)


def test_masks_keep_all_other_text() -> None:
    assert lines("jt-one:0:12") != lines("jt-one:0:11")
    assert lines("a\nb") != lines("b\na")
    assert lines("a\nb", Call("topics", "", view="sorted")) == ["a", "b"]
    assert lines("12 ms", Call("x", "", view="figures")) == ["<n> ms"]


def test_apis_are_read_with_and_without_a_range() -> None:
    printed = ["Fetch(1): 4 to 18 [usable: 18],", "DescribeCluster(60): 0 [usable: 0],"]
    offered = [*printed, "PushTelemetry(72): UNSUPPORTED"]
    assert apis(offered) == ["Fetch(1): 4 to 18", "DescribeCluster(60): 0 to 0"]


def test_only_apis_that_need_a_plug_in_may_be_offered_here_alone() -> None:
    answer = Printed(0, "PushTelemetry(72): 0 [usable: 0],\nFetch(1): 4 to 18 [usable: 18],\n", "")
    here = normal(Call("x", "", view="apis"), answer)
    outcomes = java_tools._judge_apis("x", {"stdout": []}, here)
    assert {each.name: each.status for each in outcomes} == {
        "x PushTelemetry(72)": "excluded",
        "x Fetch(1)": "failed",
    }


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


TABLE = "ProducerId ProducerEpoch TopicPartitions\n7 1 t-0\n{} 0 {}\n"


def test_tables_are_compared_row_by_row_without_the_figures_of_a_run() -> None:
    call = Call("transactions", "list", view="table")
    assert lines(TABLE.format(12, "t-1"), call) == [
        "ProducerId ProducerEpoch TopicPartitions", "<n> 0 t-1", "<n> 1 t-0"
    ]  # fmt: skip
    assert lines(TABLE.format("None", "t-1 more"), call) == [
        "ProducerId ProducerEpoch TopicPartitions", "<n> 1 t-0", "None 0 t-1 more"
    ]  # fmt: skip
    assert lines("", call) == []


def test_an_account_of_attempts_is_no_difference() -> None:
    call = Call("transactions", "", view="timeouts")
    texts = (
        "Failed on leader: Call(callName=a, tries=5) timed out after 5. Enable debug logging",
        "Failed on leader: Timed out waiting for a node assignment. Enable debug logging",
    )
    seen = [normal(call, Printed(1, "", text))["stderr"] for text in texts]
    assert seen[0] == seen[1] == ["Failed on leader: <calls>. Enable debug logging"]


def test_a_tool_that_cannot_be_installed_in_time_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    # A longer installation would end the whole run.
    assert settings["faulthandler_timeout"] > install.INSTALL_SECONDS
    monkeypatch.setattr(install, "INSTALL_SECONDS", 0.1)
    monkeypatch.setattr(install, "WORK", tmp_path)
    with pytest.raises(install.MissingTool, match="sleep 60 took longer"):
        install._run(["sleep", "60"], cwd=tmp_path)
