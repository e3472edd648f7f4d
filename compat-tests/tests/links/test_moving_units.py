"""A unit moves from a real Apache Kafka under transactions; more: `run moving-units`."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import install
from migration.moving.moving_units import UnitOptions, unit_run


def test_copies_are_exact_while_their_unit_moves(tmp_path: Path) -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    options = UnitOptions(rounds=1, clients=("librdkafka",), messages=3000, aborts=True)
    result = unit_run(options, tmp_path, print)
    assert result.figures.problems == []
    assert result.figures.is_clean
    assert result.moved == 1
