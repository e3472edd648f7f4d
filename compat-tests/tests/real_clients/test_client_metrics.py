"""Client metrics (KIP-714): Kafka's tools print the same at both brokers, and clients push."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from harness import install
from harness.broker import Broker, LocalBroker, running
from harness.java_tools.script import TOOLS
from harness.process import POLL_SECONDS
from harness.toolbox import Toolbox

PATIENCE_SECONDS: Final = 60.0
TOOL: Final = "org.apache.kafka.tools.ClientMetricsCommand"
SECOND: Final = "--interval 1000"
# Arguments of kafka-client-metrics.sh; of kafka-configs.sh if they begin with "configs".
SCRIPT: Final = (
    "--list",
    "--alter --name one --metrics org.apache.kafka.producer.,org.apache.kafka.consumer. --interval"
    " 5000 --match client_id=a.*,client_software_name=b",
    "--describe --name one",
    "--describe",
    "--list",
    "--alter --name one --interval 60000",
    "--describe --name one",
    "--alter --name all --metrics *",
    "--alter --name none --match client_source_port=90..",
    "--list",
    "--describe",
    "--alter --name one --interval 99",
    "--alter --name one --interval 3600001",
    "--alter --name one --match client_id",
    "--alter --name one --match client_id=",
    "--alter --name one --match client_id=a=b",
    "--alter --name one --match client_id=a=",
    "--alter --name one --match no_such=a",
    "--alter --name one --match client_id=(",
    "--alter --name one --match client_id=a,client_id=b",
    "--alter --name two --metrics a,a",
    "--alter --name two --metrics a,,b",
    "--describe --name two",
    "--describe --name missing",
    "--delete --name missing",
    "--delete --name one",
    "--describe --name one",
    "--list",
    "configs --describe --entity-type client-metrics --entity-name all",
    "configs --describe --entity-type client-metrics",
    "configs --alter --entity-type client-metrics --entity-name c --add-config interval.ms=200",
    "configs --alter --entity-type client-metrics --entity-name c --add-config interval.ms=soon",
    "configs --alter --entity-type client-metrics --entity-name c --add-config no.such=1",
    "configs --alter --entity-type client-metrics --entity-name c --add-config metrics=[a,b]",
    "configs --describe --entity-type client-metrics --entity-name c",
    "configs --alter --entity-type client-metrics --entity-name c --delete-config metrics",
    "configs --describe --entity-type client-metrics --entity-name c",
    "configs --alter --entity-type client-metrics --entity-name c --delete-config interval.ms",
    "--list",
    "--delete --name all",
    "--delete --name none",
    "--delete --name two",
    "--list",
)


@pytest.fixture(scope="module")
def box() -> Iterator[Toolbox]:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(str(error))
    with Toolbox() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(box: Toolbox) -> Iterator[LocalBroker]:
    with running("tidegate") as broker:
        assert isinstance(broker, LocalBroker)
        yield broker


def said(box: Toolbox, broker: Broker, words: str) -> tuple[int, list[str]]:
    """Return the exit code of a call and its output, in a fixed order."""
    first, _, rest = words.partition(" ")
    main, rest = (TOOLS["configs"], rest) if first == "configs" else (TOOL, words)
    printed = box.call(main, ["--bootstrap-server", broker.bootstrap, *rest.split()])
    lines = (printed.stdout + printed.stderr).replace(broker.bootstrap, "<broker>").splitlines()
    return printed.status, sorted(each for each in lines if not re.match(r"\s+at |\s*$", each))


def test_the_tools_say_the_same_as_at_kafka(box: Toolbox, gateway: LocalBroker) -> None:
    here = [(words, *said(box, gateway, words)) for words in SCRIPT]
    with running("kafka") as broker:
        there = [(words, *said(box, broker, words)) for words in SCRIPT]
    assert here == there


def page_of(broker: LocalBroker) -> str:
    """Return the gateway's page of metrics."""
    port = broker.command[broker.command.index("--admin-port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def series_of(broker: LocalBroker, client_id: str) -> dict[str, float]:
    """Return the values that a client pushed, by name and software."""
    pattern = (
        rf'^(tidegate_client_\w+){{client_id="{client_id}",client_software_name="(.*)"}} (.+)$'
    )
    found = re.findall(pattern, page_of(broker), re.MULTILINE)
    return {f"{name} {software}": float(value) for name, software, value in found}


def becomes(broker: LocalBroker, is_so: Callable[[], bool]) -> None:
    """Poll until is_so() holds; fail if it does not hold in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, page_of(broker)
        time.sleep(POLL_SECONDS)


def test_librdkafka_pushes(box: Toolbox, gateway: LocalBroker) -> None:
    words = f"--alter --name rd --metrics * {SECOND} --match client_id=rd-.*"
    assert said(box, gateway, words)[0] == 0
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "client.id": "rd-one"})
    latency = "tidegate_client_producer_node_request_latency_avg"
    creations = "tidegate_client_producer_connection_creation_total"
    software = "confluent-kafka-python"

    def has_pushed() -> bool:
        producer.produce("pushed", b"x")
        producer.flush(10)
        return series_of(gateway, "rd-one").get(f"{latency} {software}", 0.0) > 0

    becomes(gateway, has_pushed)
    found = series_of(gateway, "rd-one")
    assert {each.partition(" ")[2] for each in found} == {software}
    assert f"{creations} {software}" in found


def test_java_clients_push(box: Toolbox, gateway: LocalBroker, tmp_path: Path) -> None:
    metrics = "org.apache.kafka.producer."
    words = f"--alter --name java --metrics {metrics} {SECOND} --match client_id=java-.*"
    assert said(box, gateway, words)[0] == 0
    properties = tmp_path / "producer.properties"
    properties.write_text(f"bootstrap.servers={gateway.bootstrap}\nclient.id=java-one\n")
    load = "--topic pushed --num-records 400 --record-size 100 --throughput 50"
    printed = box.call(TOOLS["producer-perf"], [*load.split(), "--command-config", str(properties)])
    assert printed.status == 0, printed
    found = series_of(gateway, "java-one")
    names = {each.partition(" ")[0] for each in found}
    assert {each.partition(" ")[2] for each in found} == {"apache-kafka-java"}, page_of(gateway)
    assert "tidegate_client_producer_request_latency_avg" in names
    # A client that ends does not wait for its last push (KIP-714: best effort).
    assert 300 < found["tidegate_client_producer_record_send_total apache-kafka-java"] <= 400
    assert all(each.startswith("tidegate_client_producer_") for each in names)
