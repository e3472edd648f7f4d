"""The number of connections that a gateway accepts."""

from __future__ import annotations

import pytest

from tidegate_gateway.client_door import max_connections
from tidegate_gateway.settings.broker_settings import BrokerSettings


@pytest.mark.parametrize(
    ("settings", "most", "expected"),
    [
        ({}, 1 << 20, 10_000),
        ({}, 500, 500),
        ({"max.connections": "30000"}, 1 << 20, 30_000),
        ({"max.connections": "2147483647"}, 1 << 20, 1 << 20),
        ({"max.connections": "7"}, 500, 7),
    ],
)
def test_connections_are_bounded_unless_a_setting_says_otherwise(
    settings: dict[str, str], most: int, expected: int
) -> None:
    assert max_connections(BrokerSettings(settings), most) == expected
