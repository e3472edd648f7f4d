"""Listeners that let every client do everything."""

from __future__ import annotations

import pytest

from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import listen_addresses, refuse_open_listeners
from tidegate_runtime.settings_texts import SettingsError


def check(listeners: str, **more: str) -> None:
    """Check the listeners of a gateway.  more: settings, with _ for dots."""
    texts = {name.replace("_", "."): text for name, text in more.items()}
    settings = BrokerSettings({"listeners": listeners, **texts})
    refuse_open_listeners(settings, listen_addresses(settings))


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://127.0.0.1:9092",
        "PLAINTEXT://127.0.2.1:9092",
        "PLAINTEXT://[::1]:9092",
        "PLAINTEXT://localhost:9092",
        "PLAINTEXT://localhost:9092,SSL://:9093",
        "SASL_PLAINTEXT://0.0.0.0:9092,SASL_SSL://:9093",
    ],
)
def test_listeners_of_this_machine_and_secured_ones_are_served(listeners: str) -> None:
    check(listeners)


@pytest.mark.parametrize(
    "listeners", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "SSL://:1,PLAINTEXT://gw:2"]
)
def test_an_open_listener_must_be_allowed_by_name(listeners: str) -> None:
    with pytest.raises(SettingsError, match=r"set allow\.plaintext\.listeners=true if its network"):
        check(listeners)
    check(listeners, allow_plaintext_listeners="true")
