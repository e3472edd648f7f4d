"""Our client of classic clusters against Apache Kafka, by way of a properties file.

Three listeners: PLAINTEXT, SASL_PLAINTEXT with SCRAM-SHA-512, and SSL with client certificates.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trustme
from cryptography.hazmat.primitives import serialization as se
from harness import install
from harness.broker import running
from harness.process import free_ports, run_to_end

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import AuthenticationFailed, ClassicError
from tidegate_coordination.client.properties.client import read_client_properties
from tidegate_coordination.client.retries import Backoff
from tidegate_coordination.client.wire.dialling import dial_of
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch, decode_records, walk

TEST_SECONDS = 60.0
SECRET = 'pass word;="1"'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS = ("plaintext", "scram", "tls")
# Fetch and Produce name topics by name before version 13, and by id since then.
VERSIONS = (4, 12, 32767)


def pem_files(ca: trustme.CA, folder: Path) -> dict[str, str]:
    """Write key and certificate of the broker and of a client.  Keys are PKCS#8 for Java."""
    found: dict[str, str] = {}
    for name in ("127.0.0.1", "client"):
        issued = ca.issue_cert(name)
        key = se.load_pem_private_key(issued.private_key_pem.bytes(), None)
        text = key.private_bytes(se.Encoding.PEM, se.PrivateFormat.PKCS8, se.NoEncryption())
        path = folder / f"{name}.pem"
        path.write_bytes(text + issued.cert_chain_pems[0].bytes())
        found[name] = str(path)
    return found


def settings(sasl_port: int, tls_port: int, key_file: str, ca_file: str) -> dict[str, str]:
    """Return the settings of the two listeners beside PLAINTEXT."""
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SSL"
    return {
        "listeners": f"LOGIN://127.0.0.1:{sasl_port},SECURE://127.0.0.1:{tls_port}",
        "listener.security.protocol.map": protocols,
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.secure.ssl.client.auth": "required",
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": key_file,
        "listener.name.secure.ssl.truststore.type": "PEM",
        "listener.name.secure.ssl.truststore.location": ca_file,
    }


def add_user(bootstrap: str, folder: Path) -> None:
    """Create user alice by Kafka's own tool."""
    java = ["java", "-cp", f"{install.kafka_jars()}/*", "kafka.admin.ConfigCommand"]
    user = ["--alter", "--entity-type", "users", "--entity-name", "alice"]
    config = ["--add-config", f"SCRAM-SHA-512=[password={SECRET}]"]
    log = folder / "configs.log"
    status = run_to_end([*java, "--bootstrap-server", bootstrap, *user, *config], log, seconds=60)
    assert status == 0, log.read_text()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A broker of this module: the properties that lead to each of its listeners."""
    folder = tmp_path_factory.mktemp("classic")
    ca = trustme.CA()
    ca_file = str(folder / "ca.pem")
    ca.cert_pem.write_to_path(ca_file)
    files = pem_files(ca, folder)
    sasl_port, tls_port = free_ports(2)
    extra = settings(sasl_port, tls_port, files["127.0.0.1"], ca_file)
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(running("kafka", extra))
        except install.MissingTool as error:
            pytest.skip(str(error))
        add_user(broker.bootstrap, folder)
        yield properties_of(broker.bootstrap, sasl_port, tls_port, files, ca_file)


def properties_of(
    bootstrap: str, sasl_port: int, tls_port: int, files: dict[str, str], ca_file: str
) -> dict[str, str]:
    return {
        "plaintext": f"bootstrap.servers={bootstrap}\n",
        "scram": f"bootstrap.servers=127.0.0.1:{sasl_port}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} required username=alice"
        f" password='{SECRET}';\n",
        "tls": f"bootstrap.servers=127.0.0.1:{tls_port}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={ca_file}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={files['client']}\n",
    }


@asynccontextmanager
async def connected(properties: str, seconds: float = 30.0) -> AsyncIterator[ClassicCluster]:
    """Yield a client of the cluster in the properties, which retries calls for `seconds`."""
    backoff = Backoff(total_seconds=seconds)
    read = read_client_properties(properties, "client.properties")
    with trio.fail_after(TEST_SECONDS):
        async with trio.open_nursery() as nursery:
            cluster = ClassicCluster(nursery, dial_of(read), read, rng=Random(1), backoff=backoff)
            try:
                yield cluster
            finally:
                await cluster.aclose()


async def create(cluster: ClassicCluster, topic: str) -> bytes:
    """Create a topic of two partitions; return its id."""
    asked = ct.CreatableTopic(topic, 2, 1)
    answer = await cluster.call_controller("CreateTopics", ct.CreateTopicsRequest([asked], 30_000))
    assert [each.error_code for each in answer.topics] == [0]
    while True:  # brokers get the topic from the controller a moment later
        found = (await cluster.refresh([topic])).topics[topic]
        if found.topic_id is not None and not found.error_code:
            return found.topic_id
        await trio.sleep(0.05)


async def produce(cluster: ClassicCluster, topic: str, batch: bytes, **bounds: int) -> int:
    """Produce to partition 1; return the base offset."""

    def make(version: int) -> pr.ProduceRequest:
        data = [pr.PartitionProduceData(1, batch)]
        topic_id = cluster.metadata.topics[topic].topic_id or bytes(16)
        named = pr.TopicProduceData(topic, partition_data=data)
        by_id = pr.TopicProduceData(topic_id=topic_id, partition_data=data)
        return pr.ProduceRequest(None, -1, 10_000, [by_id if version >= 13 else named])

    answer = await cluster.call_leader(topic, 1, "Produce", make, **bounds)
    [found] = answer.responses[0].partition_responses
    assert found.error_code == 0, found
    offset: int = found.base_offset
    return offset


async def fetch(cluster: ClassicCluster, topic: str, **bounds: int) -> memoryview:
    """Return the bytes of partition 1 from its start on."""

    def make(version: int) -> fe.FetchRequest:
        rows = [fe.FetchPartition(1, partition_max_bytes=1 << 20)]
        topic_id = cluster.metadata.topics[topic].topic_id or bytes(16)
        named = fe.FetchTopic(topic=topic, partitions=rows)
        by_id = fe.FetchTopic(topic_id=topic_id, partitions=rows)
        asked = [by_id if version >= 13 else named]
        return fe.FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=asked)

    answer = await cluster.call_leader(topic, 1, "Fetch", make, wait_seconds=1.0, **bounds)
    [found] = answer.responses[0].partitions
    assert found.error_code == 0, found
    assert isinstance(found.records, memoryview)
    return found.records


async def end_offset(cluster: ClassicCluster, topic: str) -> int:
    rows = [lo.ListOffsetsPartition(1, timestamp=-1)]
    request = lo.ListOffsetsRequest(-1, topics=[lo.ListOffsetsTopic(topic, rows)])
    answer = await cluster.call_leader(topic, 1, "ListOffsets", request)
    [found] = answer.topics[0].partitions
    assert found.error_code == 0
    offset: int = found.offset
    return offset


def values_in(data: memoryview) -> list[tuple[int, Any]]:
    """Return offset and value of each record."""
    return [
        (record.offset, record.value)
        for position, header in walk(data)
        for record in decode_records(
            data[position : position + header.size_bytes], max_decompressed_bytes=1 << 20
        )
    ]


@pytest.mark.parametrize("listener", LISTENERS)
async def test_the_cluster_is_described(kafka: dict[str, str], listener: str) -> None:
    async with connected(kafka[listener]) as cluster:
        known = await cluster.refresh()
        assert known.cluster_id == "dGlkZWdhdGUtY29tcGF0MQ"
        assert known.controller_id == 1
        [broker] = known.brokers.values()
        assert f"bootstrap.servers={broker.address}\n" in kafka[listener]
        resource = dc.DescribeConfigsResource(4, "1", ["max.connections", "node.id"])
        request = dc.DescribeConfigsRequest([resource])
        answer = await cluster.call_broker(1, "DescribeConfigs", request)
        [result] = answer.results
        found = {each.name: each.value for each in result.configs}
        assert found == {"max.connections": "2147483647", "node.id": "1"}


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("highest", VERSIONS)
async def test_a_batch_is_produced_and_fetched(
    kafka: dict[str, str], listener: str, highest: int
) -> None:
    topic = f"classic-{listener}-{highest}"
    async with connected(kafka[listener]) as cluster:
        await create(cluster, topic)
        now_ms = int(time.time() * 1000)
        records = [Record(n, now_ms, b"k", b"value %d" % n, ()) for n in range(3)]
        batch = build_batch(records)
        assert await end_offset(cluster, topic) == 0
        assert await produce(cluster, topic, batch, max_version=highest) == 0
        assert await produce(cluster, topic, batch, max_version=highest) == 3
        assert await end_offset(cluster, topic) == 6
        found = values_in(await fetch(cluster, topic, max_version=highest))
        assert found == [(n, b"value %d" % (n % 3)) for n in range(6)]


async def test_many_calls_share_a_connection(kafka: dict[str, str]) -> None:
    async with connected(kafka["tls"]) as cluster:
        await create(cluster, "classic-many")
        ends: list[int] = []

        async def ask() -> None:
            ends.append(await end_offset(cluster, "classic-many"))

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(ask)
        assert ends == [0] * 300


async def refusal(properties: str) -> ClassicError:
    async with connected(properties, seconds=1.0) as cluster:
        with pytest.raises(ClassicError) as caught:
            await cluster.refresh()
    return caught.value


async def test_a_wrong_password_is_refused_in_kafkas_words(kafka: dict[str, str]) -> None:
    error = await refusal(kafka["scram"].replace("pass word", "Pass word"))
    assert isinstance(error, AuthenticationFailed)
    assert "does not authenticate user alice: Authentication failed" in str(error)
    assert "ass word" not in str(error)


async def test_a_mechanism_that_kafka_does_not_offer_is_refused(kafka: dict[str, str]) -> None:
    error = await refusal(kafka["scram"].replace("SCRAM-SHA-512", "SCRAM-SHA-256"))
    assert isinstance(error, AuthenticationFailed)
    assert "(SCRAM-SHA-512)" in str(error)


async def test_sasl_at_a_listener_without_it_is_refused(kafka: dict[str, str]) -> None:
    sasl = kafka["scram"].partition("\n")[2]
    error = await refusal(kafka["plaintext"] + sasl)
    assert isinstance(error, AuthenticationFailed)
    assert "expects no SASL at this port" in str(error)


async def test_a_client_without_a_certificate_is_refused(kafka: dict[str, str]) -> None:
    lines = kafka["tls"].splitlines(keepends=True)
    error = await refusal("".join(each for each in lines if "keystore" not in each))
    assert isinstance(error, AuthenticationFailed)
    assert "check ssl.keystore.location" in str(error)


async def test_a_plain_client_at_the_tls_port_is_named(kafka: dict[str, str]) -> None:
    bootstrap = kafka["tls"].partition("\n")[0]
    error = await refusal(f"{bootstrap}\n")
    assert "set security.protocol=SSL" in str(error)
