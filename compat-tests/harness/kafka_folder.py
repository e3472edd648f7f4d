"""A folder that looks like an unpacked Apache Kafka, out of its jars: for tests that call bin/*.sh.

Only tools; each call is a JVM of its own, so its flags are those of a quick start.
"""

from __future__ import annotations

from pathlib import Path

from harness import install
from harness.kafka_broker import LOG4J
from harness.places import WORK

FOLDER = WORK / "kafka-folder"

# CLASSPATH is honoured since tests start Java programs of their own by it.
RUN_CLASS = """\
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \\
    -Dlog4j2.configurationFile="$here/config/tools-log4j2.properties" $KAFKA_OPTS \\
    -cp "$here/libs/*${CLASSPATH:+:$CLASSPATH}" "$@"
"""
TOOL = """\
#!/bin/sh
exec "$(dirname "$0")/kafka-run-class.sh" {main} "$@"
"""
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def kafka_folder() -> Path:
    """Write the folder anew and return it: bin/, config/, and libs/, a link to the jars."""
    jars = install.kafka_jars()
    for name in ("bin", "config"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    (FOLDER / "config" / "tools-log4j2.properties").write_text(LOG4J.format(level="WARN"))
    libs = FOLDER / "libs"
    libs.unlink(missing_ok=True)
    libs.symlink_to(jars)
    _script("kafka-run-class.sh", RUN_CLASS)
    for name, main in TOOLS.items():
        _script(name, TOOL.format(main=main))
    return FOLDER


def _script(name: str, text: str) -> None:
    path = FOLDER / "bin" / name
    path.write_text(text)
    path.chmod(0o755)
