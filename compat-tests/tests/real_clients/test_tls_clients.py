"""Real clients over TLS and with certificates: librdkafka, kafka-python and Java."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from harness import install
from harness.places import HERE
from tls.brokers import TwoListeners, gateway
from tls.certificates import PASSWORD, Files, make_files

RECORDS = 20_000
PATIENCE_SECONDS = 120.0
REQUIRED = {"ssl.client.auth": "required"}
JAVA_KINDS = ("PKCS12", "JKS")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[TwoListeners]:
    """A gateway that asks each client for its certificate."""
    with gateway(files, REQUIRED) as running:
        yield running


def read_all(settings: dict[str, str], topic: str, count: int) -> int:
    """Return how many records a consumer of librdkafka reads, up to count."""
    options = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **options})
    consumer.subscribe([topic])
    found = 0
    while found < count and (
        batch := consumer.consume(min(count - found, 10_000), PATIENCE_SECONDS)
    ):
        found += sum(1 for each in batch if not each.error())
    consumer.close()
    return found


def test_librdkafka(server: TwoListeners, files: Files) -> None:
    settings = {"bootstrap.servers": server.tls, **files.librdkafka(is_known=True)}
    failed: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({**settings, "linger.ms": "20", "queue.buffering.max.messages": "200000"})
    for number in range(RECORDS):
        producer.produce("librdkafka", f"{number}", on_delivery=told)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failed
    assert read_all(settings, "librdkafka", RECORDS) == RECORDS


def test_kafka_python(server: TwoListeners, files: Files) -> None:
    program = HERE / "tls" / "kafka_python_client.py"
    arguments = [server.tls, str(files.ca), str(files.client), f"{RECORDS}"]
    done = subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert int(done.stdout) == RECORDS, done.stderr


def java_settings(files: Files, kind: str, *, is_known: bool) -> Path:
    """Write the properties of a Java client with stores made by keytool."""
    lines = [
        "security.protocol=SSL",
        f"ssl.truststore.location={files.java_truststore(kind)}",
        f"ssl.truststore.password={PASSWORD}",
        f"ssl.truststore.type={kind}",
    ]
    if is_known:
        lines += [
            f"ssl.keystore.location={files.java_store(files.client, kind)}",
            f"ssl.keystore.password={PASSWORD}",
            f"ssl.keystore.type={kind}",
            f"ssl.key.password={PASSWORD}",
        ]
    path = files.folder / f"client-{kind}-{is_known}.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def java(main: str, *arguments: str) -> str:
    """Run one of Kafka's own tools; return its output."""
    command = ["java", "-cp", f"{install.kafka_jars()}/*", f"org.apache.kafka.tools.{main}"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def produce_and_consume(bootstrap: str, topic: str, config: Path) -> str:
    """Produce and consume with Kafka's own tools; return the consumer's output."""
    java(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", f"{RECORDS}", "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", bootstrap),
        *("--command-config", str(config)),
    )
    return java(
        "ConsumerPerformance",
        *("--topic", topic, "--num-records", f"{RECORDS}", "--bootstrap-server", bootstrap),
        *("--command-config", str(config), "--timeout", "60000"),
    )


@pytest.mark.parametrize("kind", JAVA_KINDS)
@pytest.mark.parametrize("auth", ["none", "required"])
def test_java_with_stores_of_keytool_at_both_ends(files: Files, kind: str, auth: str) -> None:
    try:
        install.need("keytool", "openssl")
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Kafka's tools, keytool and OpenSSL: {error}")
    # The type is JKS, Kafka's default, but the content decides.
    stores = {
        "ssl.keystore.location": str(files.java_store(files.server, kind)),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(files.java_truststore(kind)),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": auth,
    }
    with gateway(files, stores) as server:
        config = java_settings(files, kind, is_known=auth == "required")
        said = produce_and_consume(server.tls, "java", config)
    columns = said.splitlines()[-1].split(", ")
    assert int(columns[4]) == RECORDS, said


def test_new_certificates_under_load_fail_no_request(files: Files) -> None:
    with gateway(files) as server:
        settings = {"bootstrap.servers": server.tls, **files.librdkafka()}
        failed: list[str] = []
        done = threading.Event()

        def rotate() -> None:
            while not done.wait(1.0):
                files.new_server()
                server.broker.signal(signal.SIGHUP)

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(str(error))

        rotating = threading.Thread(target=rotate)
        rotating.start()
        try:
            count = 0
            for _ in range(20):  # each has its own connections
                producer = Producer({**settings, "message.timeout.ms": "30000"})
                for _ in range(RECORDS // 20):
                    producer.produce("rotated", "x" * 100, on_delivery=told)
                    count += 1
                assert producer.flush(PATIENCE_SECONDS) == 0
            found = read_all(settings, "rotated", count)
        finally:
            done.set()
            rotating.join()
        log = server.broker.log.read_text()
    assert failed == []
    assert found == count == RECORDS
    assert log.count("new certificates are in use") >= 3
    assert "closed a connection" not in log
