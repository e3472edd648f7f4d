"""A gateway and Apache Kafka, each with a listener in plaintext and one with TLS."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from harness import broker, kafka_broker
from harness.broker import LocalBroker
from harness.process import free_ports

from .certificates import Files


@dataclass(frozen=True)
class TwoListeners:
    """A running broker.  plain, tls: addresses for clients."""

    broker: LocalBroker
    plain: str
    tls: str

    @property
    def pid(self) -> int:
        """The process."""
        assert self.broker.process is not None
        return self.broker.process.popen.pid


@contextmanager
def gateway(files: Files, settings: Mapping[str, str] | None = None) -> Generator[TwoListeners]:
    """Run a gateway that keeps everything in memory."""
    port, tls_port = free_ports(2)
    folder = broker.fresh_folder("tidegate")
    texts = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}",
        "object.store": "memory:",
        "metadata.log": "memory:",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.location": str(files.ca),
        **(settings or {}),
    }
    command = [sys.executable, "-m", "tidegate_gateway", "serve", "--data", str(folder / "data")]
    for name, text in texts.items():
        command += ["--set", f"{name}={text}"]
    yield from _running(LocalBroker(command, port, folder), tls_port)


@contextmanager
def kafka(files: Files, settings: Mapping[str, str] | None = None) -> Generator[TwoListeners]:
    """Run one broker of Apache Kafka."""
    port, controller_port, tls_port = free_ports(3)
    folder = broker.fresh_folder("kafka")
    texts = {
        "listeners": f"SSL://127.0.0.1:{tls_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.ca),
        **(settings or {}),
    }
    node = kafka_broker.alone(port, controller_port)
    command = kafka_broker.prepare(folder, node, texts)
    yield from _running(LocalBroker(command, port, folder), tls_port)


def _running(started: LocalBroker, tls_port: int) -> Generator[TwoListeners]:
    try:
        started.start()
        yield TwoListeners(started, started.bootstrap, f"127.0.0.1:{tls_port}")
    finally:
        started.stop()
