"""A folder that looks like an unpacked Apache Kafka, for tests that call bin/*.sh.

Its scripts run Kafka's jars.  Each call of a tool starts a JVM, so its flags are those of a quick
start.  The broker of the folder is Kafka's, or a gateway.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness import install
from harness.kafka_broker import LOG4J
from harness.places import WORK

SHELL = "#!/bin/sh\n"
# The script reads CLASSPATH, since tests use it to start Java programs of their own.
RUN_CLASS = """\
here=$(cd "$(dirname "$0")/.." && pwd)
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \\
    -Dlog4j2.configurationFile="$here/config/tools-log4j2.properties" $KAFKA_OPTS \\
    -cp "$here/libs/*${CLASSPATH:+:$CLASSPATH}" "$@"
"""
GATEWAY = """\
case "$1" in
kafka.Kafka) exec {python} -m tidegate_gateway serve --properties "$2" --data "$2.data" ;;
kafka.tools.StorageTool) exit 0 ;;
esac
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
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def kafka_folder(*, is_gateway: bool = False) -> Path:
    """Write the folder again and return it: bin/, config/, and libs/, a link to the jars.

    is_gateway: its broker is a gateway of this tree.
    """
    jars = install.kafka_jars()
    folder = WORK / ("gateway-folder" if is_gateway else "kafka-folder")
    for name in ("bin", "config"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "config" / "tools-log4j2.properties").write_text(LOG4J.format(level="WARN"))
    libs = folder / "libs"
    libs.unlink(missing_ok=True)
    libs.symlink_to(jars)
    gateway = GATEWAY.format(python=sys.executable) if is_gateway else ""
    _script(folder, "kafka-run-class.sh", SHELL + gateway + RUN_CLASS)
    for name, main in TOOLS.items():
        _script(folder, name, TOOL.format(main=main))
    return folder


def _script(folder: Path, name: str, text: str) -> None:
    path = folder / "bin" / name
    path.write_text(text)
    path.chmod(0o755)
