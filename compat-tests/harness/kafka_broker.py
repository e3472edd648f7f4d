"""Apache Kafka as one KRaft node out of its published jars."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness import install

CLUSTER_ID = "dGlkZWdhdGUtY29tcGF0MQ"  # any 16 bytes in base64

# Single-node factors, and no wait before a first rebalance; else Kafka's defaults.
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}

# With ELR every topic shows a min.insync.replicas that no client set.
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

# As Kafka's own start script has it, so that comparisons are fair.
MEMORY = [
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
]


def prepare(
    folder: Path, port: int, controller_port: int, settings: Mapping[str, str]
) -> list[str]:
    """Write the settings, format the data folder and return the command that starts the broker."""
    libs = install.kafka_jars()
    properties = folder / "server.properties"
    properties.write_text(_properties(folder, port, controller_port, settings))
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J.format(level="INFO"))
    java = ["java", f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{libs}/*"]
    formatting = ["format", "-t", CLUSTER_ID, *FEATURES, "-c", str(properties)]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", *formatting],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return [java[0], *MEMORY, *java[1:], "kafka.Kafka", str(properties)]


def _properties(folder: Path, port: int, controller_port: int, settings: Mapping[str, str]) -> str:
    values = {**PROPERTIES, **settings}
    # A setting "listeners" names more listeners for clients, beside the one on the port.
    listeners = ",".join(filter(None, [f"PLAINTEXT://127.0.0.1:{port}", settings.get("listeners")]))
    values |= {
        "controller.quorum.voters": f"{values['node.id']}@127.0.0.1:{controller_port}",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": listeners,
        "log.dirs": str(folder / "data"),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
