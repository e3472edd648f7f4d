"""Apache Kafka as a KRaft node from its published jars: alone, or one of a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import install
from harness.places import KAFKA_VERSION
from harness.security import AUTHORIZER

CLUSTER_ID = "dGlkZWdhdGUtY29tcGF0MQ"  # any 16 bytes in base64

# Replication factors of a single node, and no delay of a first rebalance; else Kafka's defaults.
PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "broker.rack": "default",  # a gateway is always in some zone
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "8",
    "group.initial.rebalance.delay.ms": "0",
    **AUTHORIZER,
}

# With eligible leader replicas, every topic shows a min.insync.replicas that no client set.
FEATURES = ["--feature", "eligible.leader.replicas.version=0"]

LOG4J = """\
status = ERROR
appender.console.type = Console
appender.console.name = OUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = OUT
"""

# For releases before 4.0, which log by reload4j.
OLD_LOG4J = """\
log4j.rootLogger=INFO, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

# The settings of Kafka's own start script, so that comparisons are fair.
HEAP: Final = "1g"
COLLECTOR = [
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
]


@dataclass(frozen=True, slots=True)
class Node:
    """One node: broker and controller.  voters: "ID@HOST:PORT" of every node's controller."""

    number: int
    port: int
    controller_port: int
    voters: Sequence[str]


def alone(port: int, controller_port: int) -> Node:
    """Return the only node of a cluster."""
    return Node(1, port, controller_port, [f"1@127.0.0.1:{controller_port}"])


def prepare(
    folder: Path,
    node: Node,
    settings: Mapping[str, str],
    *,
    version: str = KAFKA_VERSION,
    heap: str = HEAP,
) -> list[str]:
    """Write the settings, format the data folder and return the command that starts the broker."""
    libs = install.kafka_jars(version)
    properties = folder / "server.properties"
    properties.write_text(_properties(folder, node, settings))
    is_old = version.startswith("3.")
    log4j = folder / ("log4j.properties" if is_old else "log4j2.properties")
    log4j.write_text(OLD_LOG4J if is_old else LOG4J.format(level="INFO"))
    option = "log4j.configuration" if is_old else "log4j2.configurationFile"
    java = ["java", f"-D{option}={log4j.as_uri()}", "-cp", f"{libs}/*"]
    features = [] if is_old else FEATURES
    formatting = ["format", "-t", CLUSTER_ID, *features, "-c", str(properties)]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", *formatting],
        check=True,
        capture_output=True,
        timeout=60,
    )
    memory = [f"-Xms{heap}", f"-Xmx{heap}", *COLLECTOR]
    return [java[0], *memory, *java[1:], "kafka.Kafka", str(properties)]


def _properties(folder: Path, node: Node, settings: Mapping[str, str]) -> str:
    values = {**PROPERTIES, **settings}
    # A setting "listeners" adds listeners for clients to the one on the port.
    own = f"PLAINTEXT://127.0.0.1:{node.port}"
    listeners = ",".join(filter(None, [own, settings.get("listeners")]))
    values |= {
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(node.voters),
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": listeners,
        "log.dirs": str(folder / "data"),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
