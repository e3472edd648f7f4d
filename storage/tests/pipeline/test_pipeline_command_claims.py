"""A pipeline command that ends, also by an error, leaves the cluster to the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.test_pipeline_command import DEV, LOCAL, produce, said
from tests.worlds.app_world import serving, tidegate
from tidegate_pipeline.commands.options import why_no_spark


@pytest.mark.skipif(bool(why_no_spark()), reason=why_no_spark() or "Spark is there")
def test_once_that_fails_gives_its_claim_back(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, 0, 20)
        assert process.stop()[0] == 0
    failed = tidegate(
        "pipeline", "once", "--master", "local[1]", cwd=tmp_path, JAVA_HOME="/nowhere"
    )
    assert failed.returncode != 0
    assert "JAVA_HOME=/nowhere" in failed.stderr
    assert said("status", cwd=tmp_path)["drivers"] == []
    assert said("once", *LOCAL, cwd=tmp_path)["units"] == 1
