"""Published clients that authenticate by SASL read the sent records, with the right users."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from drivers.aio import Loop
from drivers.kafka_python import kafka
from drivers.librdkafka import await_error
from harness.broker import running
from harness.process import free_ports

MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE_SECONDS: Final = 30
PASSWORDS: Final = {"alice": 'pass word;=,"1"', "bob": "x"}
VALUES: Final = [b"%d" % number for number in range(200)]

# kafka-python leaves sockets of abandoned connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@dataclass(frozen=True, slots=True)
class User:
    """How a client logs in."""

    servers: str
    mechanism: str
    password: str = PASSWORDS["alice"]
    name: str = "alice"

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.name,
            "sasl.password": self.password,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def kafka_python(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.name,
            "sasl_plain_password": self.password,
            **more,
        }


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect garbage after each test, so that its warnings do not appear in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The SASL listener of a gateway process of this module."""
    (port,) = free_ports(1)
    quoted = {name: text.replace('"', '\\"') for name, text in PASSWORDS.items()}
    users = " ".join(f'user_{name}="{text}"' for name, text in quoted.items())
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {users};",
    }
    with running("tidegate", settings) as broker:
        add_users(broker.bootstrap)
        yield f"127.0.0.1:{port}"


def add_users(bootstrap: str) -> None:
    """Give every user its SCRAM credentials."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 8192)
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, password.encode())
            for name, password in PASSWORDS.items()
        ]
        for done in admin.alter_user_scram_credentials(changes).values():
            done.result(PATIENCE_SECONDS)


def through_librdkafka(user: User, topic: str) -> list[bytes]:
    """Write VALUES, and return the values that are read."""
    producer = Producer(user.librdkafka())
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    consumer = Consumer(user.librdkafka(group_id=topic, auto_offset_reset="earliest"))
    try:
        consumer.subscribe([topic])
        found = consumer.consume(len(VALUES), PATIENCE_SECONDS)
        assert [each.error() for each in found] == [None] * len(VALUES)
        return [each.value() or b"" for each in found]
    finally:
        consumer.close()


def through_kafka_python(user: User, topic: str) -> list[bytes]:
    """Write VALUES, and return the values that are read."""
    producer = kafka.KafkaProducer(**user.kafka_python())
    for value in VALUES:
        producer.send(topic, value, partition=0)
    producer.flush(PATIENCE_SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        **user.kafka_python(
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_SECONDS * 1000,
        ),
    )
    found: list[bytes] = []
    for record in consumer:
        found.append(record.value)
        if len(found) == len(VALUES):
            break
    consumer.close()
    return found


def through_aiokafka(user: User, topic: str) -> list[bytes]:
    """Write VALUES, and return the values that are read."""
    loop = Loop()
    try:
        return loop.run(_through_aiokafka(user.kafka_python(), topic))
    finally:
        loop.close()


async def _through_aiokafka(settings: dict[str, Any], topic: str) -> list[bytes]:
    async with AIOKafkaProducer(**settings) as producer:
        for value in VALUES:
            await producer.send(topic, value, partition=0)
        await producer.flush()
    earliest = {"group_id": topic, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, **settings, **earliest) as consumer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [(await consumer.getone()).value for _ in VALUES]


CLIENTS = [through_librdkafka, through_kafka_python, through_aiokafka]


@pytest.mark.parametrize("through", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_writes_and_reads(
    servers: str, mechanism: str, through: Callable[[User, str], list[bytes]]
) -> None:
    user = User(servers, mechanism)
    assert through(user, f"{through.__name__}-{mechanism}") == VALUES


def test_librdkafka_learns_that_its_password_is_wrong(servers: str) -> None:
    errors: list[str] = []
    settings = User(servers, "PLAIN", "guess").librdkafka()
    settings["error_cb"] = lambda error: errors.append(str(error))
    producer = Producer(settings)
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
    await_error(producer, errors, "Authentication failed: Invalid username or password")
