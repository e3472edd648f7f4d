"""kafka-python's own tests of logins and TLS, which start a broker for each module or test.

They start it by the scripts of a folder (kafka_folder.py), with templates of settings.  The source
distribution leaves these templates out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness import install, places
from harness.kafka_folder import kafka_folder
from harness.places import log_of
from harness.report import Outcome

from suites.baseline import passing
from suites.kafka_python import run_tests

_COMMON: Final = """\
num.partitions={partitions}
default.replication.factor={replicas}
offsets.topic.replication.factor={replicas}
auto.create.topics.enable={auto_create_topic}
group.initial.rebalance.delay.ms=0
{sasl_config}
{ssl_config}
{acl_config}
"""
_KAFKA: Final = (
    """\
listeners={transport}://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{transport}:{transport}
process.roles=broker,controller
node.id={broker_id}
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
inter.broker.listener.name={transport}
log.dirs={tmp_dir}/data
super.users=User:ANONYMOUS
ssl.endpoint.identification.algorithm=
"""
    + _COMMON
)
_GATEWAY: Final = (
    """\
listeners={transport}://{host}:{port},PLAINTEXT://127.0.0.1:{controller_port}
node.id={broker_id}
listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas_config}
"""
    + _COMMON
)
_FILES: Final = {
    "kafka_server_jaas.conf": "KafkaServer {{\n{jaas_config}}};\n",
    "log4j.properties": "",
    "sasl_command.conf": (
        "security.protocol={transport}\nsasl.mechanism={sasl_mechanism}\n"
        "sasl.jaas.config={jaas_config}\n"
    ),
}


def check(against: str, only: re.Pattern[str]) -> Sequence[Outcome]:
    """Run the tests, which start brokers of this kind themselves.

    Raises:
      MissingTool: a tool is missing, or `against` is an address.
    """
    if against not in ("tidegate", "kafka"):
        raise install.MissingTool("these tests start brokers of their own: no address will do")
    install.need("java", "keytool", "openssl")
    is_gateway = against == "tidegate"
    folder = install.kafka_python_suite()
    log, names = log_of("kafka-python-logins"), passing("kafka-python-logins", only)
    env = {
        "KAFKA_ROOT": str(kafka_folder(is_gateway=is_gateway)),
        "KAFKA_VERSION": places.KAFKA_VERSION,
        "PROJECT_ROOT": str(
            _templates(log.with_suffix(".templates"), _GATEWAY if is_gateway else _KAFKA)
        ),
        **({"ADD_SCRAM_USER": "1"} if is_gateway else {}),
    }
    return run_tests(folder, log, env, names, [f"test/integration/{name}" for name in names])


def _templates(folder: Path, settings: str) -> Path:
    """Write the files where the tests look for them."""
    resources = folder / "servers" / "resources" / "default"
    resources.mkdir(parents=True, exist_ok=True)
    for name, text in {"kafka.properties": settings, **_FILES}.items():
        # The tests ignore an empty file.
        (resources / name).write_text(text or "\n")
    return folder
