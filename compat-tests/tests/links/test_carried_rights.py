"""Rights of a real Apache Kafka are carried over; the run is `run carried-rights`."""

from __future__ import annotations

import pytest
from harness import install
from migration.carried_rights import run


def test_a_gateway_shows_and_decides_what_apache_kafka_does() -> None:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    assert run() == []
