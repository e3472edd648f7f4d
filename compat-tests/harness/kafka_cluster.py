"""Apache Kafka of one node, or of three with replication factor 3.  Each is broker and controller.

Three nodes have small heaps, since they share one machine with gateways and clients.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from harness import kafka_broker
from harness.broker import READY_SECONDS, LocalBroker, fresh_folder
from harness.kafka_broker import Node
from harness.places import KAFKA_VERSION
from harness.probe import answers
from harness.process import free_ports

NODES: Final = 3
HEAP: Final = "400m"
_INTERNAL: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
# A broker that is down loses its leaderships after 3 s instead of 9, so a short run sees more
# elections.
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    **{f"{each}.replication.factor": "3" for each in _INTERNAL},
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(slots=True)
class KafkaCluster:
    """The running nodes, by node id."""

    nodes: dict[int, LocalBroker]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(each.bootstrap for each in self.nodes.values())

    def start(self) -> None:
        """Start all nodes and wait until they answer: one alone would wait for a quorum.

        Raises:
          StartFailed: one ended or did not answer within READY_SECONDS.
        """
        started = [(each.start_nowait(), each.port) for each in self.nodes.values()]
        for process, port in started:
            process.wait_until(partial(answers, "127.0.0.1", port), READY_SECONDS)

    def stop(self) -> None:
        """Stop the nodes one after another by SIGTERM; kill the last one, which has no quorum."""
        for each in list(self.nodes.values())[:-1]:
            each.stop()
        self.kill()

    def kill(self) -> None:
        """kill -9 of all."""
        for each in self.nodes.values():
            each.kill()


@contextmanager
def running(count: int, *, version: str = KAFKA_VERSION) -> Generator[KafkaCluster]:
    """Start 1 or 3 nodes, and stop them at the end.  Their data is removed, their output stays.

    Raises:
      StartFailed: they did not get ready.
      MissingTool: Java or Maven is not here.
    """
    cluster = _prepared(count, version)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        for each in cluster.nodes.values():
            shutil.rmtree(each.folder / "data", ignore_errors=True)


def _prepared(count: int, version: str) -> KafkaCluster:
    ports = free_ports(2 * count)
    voters = [f"{1 + at}@127.0.0.1:{ports[count + at]}" for at in range(count)]
    settings, heap = (SETTINGS, HEAP) if count == NODES else ({}, kafka_broker.HEAP)
    nodes: dict[int, LocalBroker] = {}
    for at in range(count):
        node = Node(1 + at, ports[at], ports[count + at], voters)
        folder = fresh_folder(f"kafka-node-{node.number}")
        command = kafka_broker.prepare(folder, node, settings, version=version, heap=heap)
        nodes[node.number] = LocalBroker(command, node.port, folder)
    return KafkaCluster(nodes)
