"""Topics of a real Apache Kafka are imported; the run of minutes is `run importing`."""

from __future__ import annotations

import pytest
from harness import install
from migration.importing import run


def test_every_byte_of_apache_kafka_is_imported() -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    figures = run(mib=100, seed=1, by_record=False)
    assert figures["problems"] == []
    assert figures["bytes"] > 0
    assert figures["kills"] == 2
