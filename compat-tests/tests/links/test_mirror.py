"""Topics of a real Apache Kafka are mirrored; the run of minutes is `run mirror`."""

from __future__ import annotations

import pytest
from harness import install
from migration.mirror import run


def test_every_byte_of_apache_kafka_is_mirrored() -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    figures = run(6.0, seed=1, every=3.0)
    assert figures["problems"] == []
    assert figures["records"] > 0
    assert figures["kills"] > 0
