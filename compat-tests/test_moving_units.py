"""A unit moves from a real Apache Kafka under transactions; more: migration/moving_units.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import install
from migration.moving_units import parser, unit_run


def test_copies_are_exact_while_their_unit_moves(tmp_path: Path) -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    words = ["--rounds", "1", "--clients", "librdkafka", "--messages", "3000", "--aborts"]
    result = unit_run(parser().parse_args(words), tmp_path, print)
    assert result.figures.problems == []
    assert result.figures.is_clean
    assert result.moved == 1
