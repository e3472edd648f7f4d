"""listeners and advertised.listeners: where to listen, and what to advertise."""

from __future__ import annotations

import pytest

from tidegate_coordination.events.cluster import Endpoint
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import advertised_endpoints, listen_addresses
from tidegate_runtime.addresses import ListenerAddress
from tidegate_runtime.settings_texts import SettingsError


def settings(listeners: str, advertised: str = "", protocols: str = "") -> BrokerSettings:
    texts = {"listeners": listeners}
    if advertised:
        texts["advertised.listeners"] = advertised
    if protocols:
        texts["listener.security.protocol.map"] = protocols
    return BrokerSettings(texts)


def endpoints(given: BrokerSettings) -> list[Endpoint]:
    return list(advertised_endpoints(given, listen_addresses(given), "myhost"))


def test_a_gateway_advertises_the_addresses_that_it_listens_at() -> None:
    given = settings(
        "PLAINTEXT://127.0.0.1:9092, inner://[::1]:9093",
        protocols="INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    assert listen_addresses(given) == (
        ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),
        ListenerAddress("INNER", "::1", 9093),
    )
    assert endpoints(given) == [
        Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("INNER", "::1", 9093),
    ]


def test_an_advertised_address_stands_in() -> None:
    given = settings("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://gw1.example.com:443")
    assert endpoints(given) == [Endpoint("PLAINTEXT", "gw1.example.com", 443)]


def test_no_host_is_everywhere_and_advertises_this_machine() -> None:
    given = settings("PLAINTEXT://:9092")
    assert listen_addresses(given) == (ListenerAddress("PLAINTEXT", "", 9092),)
    assert endpoints(given) == [Endpoint("PLAINTEXT", "myhost", 9092)]


def test_port_0_is_advertised_as_the_port_that_was_found() -> None:
    given = settings("PLAINTEXT://:0", "PLAINTEXT://gw:0")
    bound = [ListenerAddress("PLAINTEXT", "", 40001)]
    assert advertised_endpoints(given, bound, "h") == (Endpoint("PLAINTEXT", "gw", 40001),)


# From config/server.properties of Apache Kafka 4.3.1, which has both roles in one process.
KRAFT = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
}


def test_the_listener_of_kafkas_controller_is_left_out() -> None:
    given = BrokerSettings(KRAFT)
    assert listen_addresses(given) == (ListenerAddress("PLAINTEXT", "", 9092),)
    assert endpoints(given) == [Endpoint("PLAINTEXT", "localhost", 9092)]


def test_a_brokers_listeners_are_all_served() -> None:
    """A Kafka broker's settings also name the controllers' listener, which it does not serve."""
    given = BrokerSettings(KRAFT | {"listeners": "PLAINTEXT://:9092"})
    assert endpoints(given) == [Endpoint("PLAINTEXT", "localhost", 9092)]


def test_a_controllers_file_is_refused() -> None:
    given = BrokerSettings(KRAFT | {"listeners": "controller://:9093"})
    with pytest.raises(SettingsError, match=r"without those of controller\.listener\.names"):
        listen_addresses(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (settings("PLAINTEXT://0.0.0.0:9092"), "which they cannot; set advertised.listeners"),
        (settings("PLAINTEXT://a:1", "OTHER://b:2"), "names OTHER"),
        (settings("PLAINTEXT://a:1,PLAINTEXT://b:2"), "names PLAINTEXT twice"),
        (
            settings("MINE://a:1", protocols="MINE:KERBEROS"),
            "asks for KERBEROS; this release serves PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (settings("INNER://a:1"), "asks for no known protocol"),
        (settings("a:1"), "'a:1' is not NAME://host:port"),
        (settings("PLAINTEXT://a"), "is not NAME://host:port"),
        (settings("PLAINTEXT://a:65536"), "is not NAME://host:port"),
        (settings("PLAINTEXT://::1:9092"), "is not NAME://host:port"),
        (settings(""), "listeners is empty"),
    ],
)
def test_listeners_that_cannot_work_are_refused(given: BrokerSettings, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        endpoints(given)
