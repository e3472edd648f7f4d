"""The rules of deploy/monitoring in real Prometheus."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
from harness import install
from harness.install import MissingTool

MONITORING: Final = Path(__file__).parents[1] / "deploy" / "monitoring"
SECONDS: Final = 120.0


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with prometheus and promtool."""
    try:
        return install.prometheus()
    except MissingTool as error:
        pytest.skip(f"needs Prometheus: {error}")


def test_each_alert_fires_and_clears(programs: Path) -> None:
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run(
            [programs / "promtool", *words],
            cwd=MONITORING,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout
