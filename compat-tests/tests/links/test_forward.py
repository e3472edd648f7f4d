"""Writes to mirrored topics reach a real Apache Kafka.  `run forward` does so for minutes."""

from __future__ import annotations

import pytest
from harness import install
from migration.forward import run


def test_every_forwarded_record_is_at_apache_kafka_once_and_in_order() -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    figures = run(8.0, seed=1, every=3.0)
    assert figures["problems"] == []
    assert figures["kills"] > 0
