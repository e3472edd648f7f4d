"""The last lines of a JVM, and how it ended; a shell stands for the JVM."""

from __future__ import annotations

import subprocess

import pytest

from tidegate_pipeline.runners.java_output import TOLD_LINES, JavaOutput, how_it_ended


def run(output: JavaOutput, script: str) -> subprocess.Popen[bytes]:
    with output.writable() as pipe:
        return subprocess.Popen(["sh", "-c", script], stdout=pipe, stderr=pipe)


def test_the_last_lines_of_both_outputs_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    output = JavaOutput(is_shown=False)
    java = run(output, "seq 1 5000; echo last >&2; exit 3")
    lines = [*map(str, range(5000 - TOLD_LINES + 2, 5001)), "last"]
    assert (output.last_lines(), how_it_ended(java)) == (lines, "it ended with exit code 3")
    assert capfd.readouterr() == ("", "")


def test_what_a_cluster_s_driver_prints_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    output = JavaOutput(is_shown=True)
    java = run(output, "echo one; kill -9 $$")
    assert (output.last_lines(), how_it_ended(java)) == (["one"], "it was ended by signal 9")
    assert capsys.readouterr() == ("", "one\n")


def test_a_line_without_an_end_takes_bounded_memory() -> None:
    output = JavaOutput(is_shown=False)
    java = run(output, "head -c 1000000 /dev/zero | tr '\\0' x")
    assert java.wait() == 0
    lines = output.last_lines()
    assert len(lines) == TOLD_LINES
    assert {len(each) for each in lines} == {1000}


def test_a_jvm_that_was_not_started_has_no_lines() -> None:
    assert JavaOutput(is_shown=False).last_lines() == []
