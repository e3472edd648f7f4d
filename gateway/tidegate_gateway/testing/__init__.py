"""Gateways for test suites, with or without Docker (docs/testing.md).

    from tidegate_gateway.testing import running_gateway

    with running_gateway() as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap})

A test suite imports this package into its own process.  So its modules load neither Trio nor the
gateway.
"""

from .gateway_process import GatewayFailed
from .running import running_gateway

__all__ = ["GatewayFailed", "running_gateway"]
