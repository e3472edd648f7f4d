"""Real clients that log in with tokens (OAUTHBEARER), while sessions end and keys change."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from authentications.provider import Provider, listener_settings
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from drivers.aio import Loop
from drivers.kafka_python import kafka
from drivers.librdkafka import await_error
from harness import install
from harness.broker import running
from harness.process import free_ports
from kafka.net.sasl.oauth import AbstractTokenProvider

LISTENER = "SASL_PLAINTEXT"
PATIENCE_SECONDS = 60
VALUES = [b"%d" % number for number in range(200)]
TOKEN_SECONDS = 3.0
LOAD_SECONDS = 5.0

# kafka-python leaves sockets of abandoned connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def servers(provider: Provider) -> Iterator[str]:
    """The listener of a gateway that trusts the provider."""
    (port,) = free_ports(1)
    with provider.published() as url:
        settings = {"listeners": f"{LISTENER}://127.0.0.1:{port}"}
        with running("tidegate", settings | listener_settings(LISTENER, url)):
            yield f"127.0.0.1:{port}"


def librdkafka(
    servers: str, provider: Provider, seconds: float = 3600.0, **more: Any
) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": LISTENER,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (provider.token(seconds=seconds), time.time() + seconds),
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def consumed(settings: dict[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found = consumer.consume(count, PATIENCE_SECONDS)
        return [each.value() or b"" for each in found]
    finally:
        consumer.close()


def test_librdkafka_goes_on_while_its_sessions_end_and_keys_change(
    servers: str, provider: Provider
) -> None:
    settings = librdkafka(servers, provider, TOKEN_SECONDS)
    failed: list[str] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(settings | {"enable.idempotence": True})
    done, sent, reads = threading.Event(), 0, provider.reads

    def rotate() -> None:
        while not done.wait(TOKEN_SECONDS / 2):
            provider.rotate()

    rotating = threading.Thread(target=rotate)
    rotating.start()
    try:
        until = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < until:
            producer.produce("rotated", f"{sent}".encode(), partition=0, on_delivery=told)
            producer.poll(0.005)
            sent += 1
        assert producer.flush(PATIENCE_SECONDS) == 0
    finally:
        done.set()
        rotating.join()
    assert failed == []
    assert provider.reads > reads  # the gateway found the new keys by itself
    found = consumed(librdkafka(servers, provider), "rotated", sent)
    assert found == [f"{number}".encode() for number in range(sent)]


def test_librdkafka_learns_that_its_token_is_refused(servers: str, provider: Provider) -> None:
    errors: list[str] = []
    settings = librdkafka(servers, Provider())  # whose keys the gateway does not know
    producer = Producer(settings | {"error_cb": lambda error: errors.append(str(error))})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
    # The gateway reads the provider's keys again for this token.  Just after its start it waits
    # before it does so.
    await_error(producer, errors, "invalid_token")


class _KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, provider: Provider) -> None:
        super().__init__()
        self._provider = provider

    def token(self) -> str:
        return self._provider.token(seconds=60.0)


def test_kafka_python(servers: str, provider: Provider) -> None:
    settings = {
        "bootstrap_servers": servers,
        "security_protocol": LISTENER,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": _KafkaPythonTokens(provider),
    }
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send("kafka-python", value, partition=0)
    producer.flush(PATIENCE_SECONDS)
    producer.close()
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE_SECONDS * 1000}
    consumer = kafka.KafkaConsumer("kafka-python", group_id="g", **settings, **reading)
    found = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    assert found == VALUES


class _AioTokens(AioTokenProvider):  # type: ignore[misc]
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def token(self) -> str:
        return self._provider.token(seconds=60.0)


def test_aiokafka(servers: str, provider: Provider) -> None:
    loop = Loop()
    try:
        assert loop.run(_through_aiokafka(servers, provider)) == VALUES
    finally:
        loop.close()


async def _through_aiokafka(servers: str, provider: Provider) -> list[bytes]:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": LISTENER,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": _AioTokens(provider),
    }
    async with AIOKafkaProducer(**settings) as producer:
        for value in VALUES:
            await producer.send("aiokafka", value, partition=0)
        await producer.flush()
    reading: dict[str, Any] = {"group_id": "aio", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("aiokafka", **settings, **reading) as consumer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [(await consumer.getone()).value for _ in VALUES]


def test_java_with_the_token_in_a_file(servers: str, provider: Provider, tmp_path: Path) -> None:
    try:
        jars = install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Kafka's tools: {error}")
    token = tmp_path / "token.jwt"
    token.write_text(provider.token())
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol={LISTENER}\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={module} required;\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    done = subprocess.run(
        [
            "java",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}",
            *("-cp", f"{jars}/*", "org.apache.kafka.tools.ProducerPerformance"),
            *("--topic", "java", "--num-records", "1000", "--record-size", "100"),
            *("--throughput", "-1", "--bootstrap-server", servers),
            *("--command-config", str(config)),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert not done.returncode, done.stdout + done.stderr
    assert len(consumed(librdkafka(servers, provider), "java", 1000)) == 1000
