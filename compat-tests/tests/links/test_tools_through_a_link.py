"""The judgements of `run link-tools`."""

from __future__ import annotations

from harness.java_tools.script import Call
from harness.java_tools.suite import Normal, judge
from migration.tools import _sees_copy
from migration.tools_script import LIMITS, SCRIPT


def printed(*lines: str) -> Normal:
    return {"status": 0, "stdout": list(lines), "stderr": []}


def test_a_text_that_differs_fails_and_a_limit_is_named() -> None:
    assert judge("a call", printed("1"), printed("1"), {}).status == "passed"
    failed = judge("a call", printed("1"), printed("2"), {})
    assert (failed.status, failed.detail.split()) == ("failed", ["-1", "+2"])
    found = judge("a call", printed("1"), printed("2"), {"a call": "why"})
    assert (found.status, found.detail) == ("excluded", "why")
    assert judge("a call", None, printed("1"), {}).status == "failed"


def test_each_limit_is_of_a_call_of_the_script() -> None:
    names = [each.name for each in SCRIPT if isinstance(each, Call)]
    assert LIMITS.keys() <= set(names)
    assert len(names) == len(set(names))


def test_calls_that_read_the_copy_wait_for_it() -> None:
    waiting = [each.words for each in SCRIPT if isinstance(each, Call) and _sees_copy(each)]
    assert "--topic jt-one --time -3" in waiting
    assert "--topic jt-txn --partition 0" not in waiting
    assert any(each.startswith("describe-producers") for each in waiting)
