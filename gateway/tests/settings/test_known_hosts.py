"""The names by which the HTTP listeners of a gateway are known."""

from __future__ import annotations

import pytest

from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.known_hosts import known_hosts

TEXTS = {
    "listeners": "PLAINTEXT://in.example.com:9092",
    "advertised.listeners": "PLAINTEXT://out.example.com:9092",
    "admin.listener": "pages.example.com:9644",
    "peer.listener": "0.0.0.0:9645",
    "peer.advertised.listener": "peer.example.com:9645",
    "http.allowed.hosts": "lb.example.com, metrics.example.com",
}


@pytest.mark.parametrize("name", ["in", "out", "pages", "peer", "lb", "metrics", "machine"])
def test_a_gateway_answers_to_the_names_of_its_settings_and_of_its_machine(name: str) -> None:
    hosts = known_hosts(BrokerSettings(TEXTS), "machine.example.com")
    assert hosts.admits(f"{name}.example.com:9644")
    assert not hosts.admits("example.com")


def test_any_name_may_be_allowed() -> None:
    assert not known_hosts(BrokerSettings({})).admits("evil.example")
    assert known_hosts(BrokerSettings({"http.allowed.hosts": "*"})).admits("evil.example")
