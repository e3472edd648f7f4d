"""docs/security.md, "From open to closed, without a stop", as an operator follows it.

Two gateways serve a producer and a group all the time.  The commands and the settings are those of
the page, with other addresses and folders.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import broker, install
from harness.broker import LocalBroker
from harness.kafka_folder import kafka_folder
from harness.pages import Block, blocks_of
from harness.process import free_ports

TOPIC: Final = "invoices"
PATIENCE_SECONDS: Final = 60.0
STEP_SECONDS: Final = 120
CERTIFICATES, ADDED, USERS, CLIENT, RIGHTS, CLOSED = range(6)
LANGUAGES: Final = ["sh", "properties", "sh", "properties", "sh", "properties"]
KEYS: Final = {
    "security.protocol": "security.protocol",
    "ssl.truststore.location": "ssl.ca.location",
    "sasl.mechanism": "sasl.mechanism",
}


@dataclass
class Gateway:
    """One gateway and the settings of its server.properties.  ports: plain and secured."""

    number: int
    ports: tuple[int, int]
    running: LocalBroker
    settings: dict[str, str]

    def restart(self) -> None:
        """Write the settings and start again."""
        self.running.stop()
        lines = [f"{name}={text}\n" for name, text in self.settings.items()]
        (self.running.folder / "server.properties").write_text("".join(lines))
        self.running.start_nowait().wait_until(self._is_ready, PATIENCE_SECONDS)

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://{self.settings['admin.listener']}/readyz", timeout=5) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False


@dataclass
class Place:
    """An operator's folder, and the gateways."""

    folder: Path
    gateways: list[Gateway]
    blocks: list[Block] = field(
        default_factory=lambda: blocks_of("security.md", "## From open to closed, without a stop")
    )

    def servers(self, listener: int) -> str:
        """Return the addresses of one listener, 0 plain and 1 secured, of all gateways."""
        return ",".join(f"localhost:{each.ports[listener]}" for each in self.gateways)

    def here(self, text: str, number: int = 1) -> str:
        """Return a text of the page about gateway 1, with the addresses and paths of this test.

        number: the gateway whose addresses replace those of gateway 1.
        """
        plain, secured = self.gateways[number - 1].ports
        changes = {
            "gateway-1:9092": f"localhost:{plain}",
            "gateway-1:9093": f"localhost:{secured}",
            "//:9092": f"//127.0.0.1:{plain}",
            "//:9093": f"//127.0.0.1:{secured}",
            "/etc/tidegate/gateway-1.pem": str(self.folder / f"gateway-{number}.pem"),
            "/etc/tidegate": str(self.folder),
            "subjectAltName=DNS:$name": "subjectAltName=DNS:$name,DNS:localhost",
        }
        for old, new in changes.items():
            text = text.replace(old, new)
        return text

    def run(self, step: int) -> None:
        """Run the commands of a step."""
        path = f"{kafka_folder() / 'bin'}:{os.environ['PATH']}"
        subprocess.run(
            ["sh", "-euc", self.here(self.blocks[step].text)],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            check=True,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
        )

    def set_all(self, step: int) -> None:
        """Change the settings of a step, and restart the gateways one after another."""
        for each in self.gateways:
            for name, text in self.blocks[step].settings().items():
                each.settings[name] = self.here(text, each.number)
            each.restart()

    def client(self, user: str) -> dict[str, Any]:
        """Return librdkafka's settings for a user, from the properties of the page."""
        found = self.blocks[CLIENT].settings()
        jaas = found["sasl.jaas.config"]
        assert jaas.endswith('username="admin" password="admin-secret";')
        settings = {new: found[old] for old, new in KEYS.items()}
        settings["ssl.ca.location"] = str(self.folder / settings["ssl.ca.location"])
        return {
            **settings,
            "bootstrap.servers": self.servers(1),
            "ssl.certificate.location": str(self.folder / f"{user}.crt"),
            "ssl.key.location": str(self.folder / f"{user}.key"),
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }


class Load:
    """A producer that counts, and a group that must read each number once and in order."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.written = 0
        self.read: list[int] = []
        self.failed: list[str] = []
        self._open(settings, settings)

    def _open(self, producers: dict[str, Any], consumers: dict[str, Any]) -> None:
        quiet = {"log_level": 0}
        self._producer = Producer({**producers, **quiet, "enable.idempotence": True})
        self._consumer = Consumer(
            {**consumers, **quiet, "group.id": "reports", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([TOPIC])

    def move(self, producers: dict[str, Any], consumers: dict[str, Any]) -> None:
        """Close the clients, and start them with other settings."""
        self.close()
        self._open(producers, consumers)

    def close(self) -> None:
        """End the clients."""
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        self._consumer.close()

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))

    def go_on(self, records: int = 200) -> None:
        """Write some records, and read all."""
        for _ in range(records):
            self._producer.produce(TOPIC, f"{self.written}", on_delivery=self._told)
            self.written += 1
            self._producer.poll(0)
            self._take(self._consumer.poll(0))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.read) < self.written and time.monotonic() < deadline:
            self._producer.poll(0)
            self._take(self._consumer.poll(0.1))

    def _take(self, message: Message | None) -> None:
        if message is not None and not message.error():
            self.read.append(int(message.value() or b""))

    def judge(self) -> None:
        """Check that no record failed, is missing, came twice or came out of order."""
        assert self.failed == []
        assert self.read == list(range(self.written))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Two gateways with an open listener, on one log and one store."""
    try:
        install.need("openssl")
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs OpenSSL and Kafka's tools: {error}")
    release = subprocess.run(["openssl", "version"], check=True, capture_output=True, text=True)
    if not release.stdout.startswith("OpenSSL 3"):
        pytest.skip(f"the page's commands need OpenSSL 3, and here is {release.stdout.strip()}")
    shared, gateways = tmp_path / "shared", list[Gateway]()
    shared.mkdir()
    for number in (1, 2):
        plain, secured, admin = free_ports(3)
        folder = broker.fresh_folder("tidegate")
        command = [sys.executable, "-m", "tidegate_gateway", "serve", "--data", str(folder)]
        command += ["--properties", str(folder / "server.properties")]
        settings = {
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{plain}",
            "admin.listener": f"127.0.0.1:{admin}",
            "object.store": f"file:{shared / 'objects'}",
            "metadata.log": f"sqlite:{shared / 'log.sqlite'}",
        }
        gateways.append(
            Gateway(number, (plain, secured), LocalBroker(command, plain, folder), settings)
        )
    (tmp_path / "operator").mkdir()
    try:
        for each in gateways:
            each.restart()
        yield Place(tmp_path / "operator", gateways)
    finally:
        for each in gateways:
            each.running.stop()


def test_the_page_leads_from_open_to_closed(place: Place) -> None:
    assert [each.language for each in place.blocks] == LANGUAGES
    open_to_all = {"bootstrap.servers": place.servers(0)}
    admin = AdminClient({**open_to_all, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_SECONDS)
    load = Load(open_to_all)
    load.go_on()
    place.run(CERTIFICATES)
    place.set_all(ADDED)
    load.go_on()
    place.run(USERS)
    write_properties(place)
    load.move(place.client("billing"), place.client("reports"))
    load.go_on()
    place.run(RIGHTS)
    load.go_on()
    place.set_all(CLOSED)
    load.go_on()
    load.close()
    load.judge()
    check_closed(place, open_to_all)
    check_doctor(place)


def check_doctor(place: Place) -> None:
    """Check that the page leaves nothing that `tidegate doctor` finds."""
    for each in place.gateways:
        folder = each.running.folder
        words = ["doctor", "--data", str(folder), "--properties"]
        done = subprocess.run(
            [sys.executable, "-m", "tidegate_gateway", *words, str(folder / "server.properties")],
            check=False,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "can be read by gateways alone" in done.stdout


def write_properties(place: Place) -> None:
    """Write admin.properties as the page has it."""
    (place.folder / "admin.properties").write_text(place.blocks[CLIENT].text)


def check_closed(place: Place, open_to_all: Mapping[str, Any]) -> None:
    """Check that clients without TLS, certificate, password or right are refused now."""
    with pytest.raises(KafkaException):
        AdminClient({**open_to_all, "log_level": 0}).list_topics(timeout=2)
    without = {**place.client("reports"), "log_level": 0}
    del without["ssl.certificate.location"], without["ssl.key.location"]
    with pytest.raises(KafkaException):
        AdminClient(without).list_topics(timeout=2)
    wrong = {**place.client("reports"), "log_level": 0, "sasl.password": "guessed"}
    with pytest.raises(KafkaException):
        AdminClient(wrong).list_topics(timeout=2)
    reader = {**place.client("reports"), "log_level": 0}
    assert TOPIC in AdminClient(reader).list_topics(timeout=PATIENCE_SECONDS).topics
    codes: list[int] = []
    producer = Producer(reader)
    producer.produce(
        TOPIC, "x", on_delivery=lambda error, _: codes.append(error.code() if error else 0)
    )
    producer.flush(PATIENCE_SECONDS)
    assert codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
