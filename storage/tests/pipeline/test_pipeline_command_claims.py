"""A pipeline command that ends, even by an error, releases the cluster for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.test_pipeline_command import DEV, JAVA_17, LOCAL, produce, said
from tests.worlds.app_world import serving, tidegate
from tidegate_pipeline.commands.options import why_no_spark
from tidegate_pipeline.runners.java_output import TOLD_LINES


@pytest.mark.skipif(bool(why_no_spark()), reason=why_no_spark() or "Spark is there")
def test_once_that_fails_gives_its_claim_back(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, 0, 20)
        assert process.stop()[0] == 0
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    # this test starts no JVM
    java.write_text(f"{JAVA_17}[ $1 = -version ] || {{ seq 1 30; exit 1; }}")
    java.chmod(0o755)
    home = str(tmp_path / "java")
    failed = tidegate("pipeline", "once", "--master", "local[1]", cwd=tmp_path, JAVA_HOME=home)
    assert failed.returncode != 0
    assert "Spark does not start: PySparkRuntimeError" in failed.stderr
    # Spark's own script adds some.
    assert "\nthe last lines of Java:\n  1" in failed.stderr
    assert "\n  29\n  30\n" in failed.stderr
    assert failed.stderr.count("\n  ") == TOLD_LINES
    assert said("status", cwd=tmp_path)["drivers"] == []
    assert said("once", *LOCAL, cwd=tmp_path)["units"] == 1
