"""Three gateways in three zones, and librdkafka clients, which end up in their own zones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate

ZONES = ("a", "b", "c")
MESSAGES = 60


@contextmanager
def gateways(folder: Path, *settings: str) -> Iterator[dict[str, Process]]:
    """Run one gateway in each zone, on one log and one store."""
    with ExitStack() as stack:
        running: dict[str, Process] = {}
        for node_id, zone in enumerate(ZONES, 1):
            named = [
                f"node.id={node_id}",
                f"broker.rack={zone}",
                "listeners=PLAINTEXT://127.0.0.1:0",
                "admin.listener=127.0.0.1:0",
                f"object.store=file:{folder}/objects",
                f"metadata.log=sqlite:{folder}/metadata.db",
                *settings,
            ]
            options = [word for each in named for word in ("--set", each)]
            data = str(folder / f"data-{zone}")
            running[zone] = stack.enter_context(
                serving("serve", "--data", data, *options, cwd=folder)
            )
        yield running


def client(running: dict[str, Process], zone: str, **more: Any) -> dict[str, Any]:
    """Return settings of a client that bootstraps from the gateway of a zone."""
    return {"bootstrap.servers": running[zone].servers} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def zone_bytes(process: Process, direction: str) -> dict[str, int]:
    """Return bytes by kind: same, cross, unknown."""
    status, text = process.get("/v1/zones")
    assert status == 200
    found: dict[str, int] = json.loads(text)[direction]
    return found


def leaders(running: dict[str, Process], client_id: str) -> set[int]:
    found = Producer(client(running, "a", client_id=client_id)).list_topics("t", PATIENCE_SECONDS)
    return {each.leader for each in found.topics["t"].partitions.values()}


def test_clients_stay_in_their_zones(tmp_path: Path) -> None:
    with gateways(tmp_path) as running:
        topic = NewTopic("t", num_partitions=6, replication_factor=3)
        admin = AdminClient(client(running, "a"))
        admin.create_topics([topic])["t"].result(PATIENCE_SECONDS)

        assert leaders(running, "app,zone=b") == {2}
        assert leaders(running, "automq_type=producer&automq_az=c&app") == {3}
        assert len(leaders(running, "app")) > 1

        producer = Producer(client(running, "a", client_id="app,zone=b"))
        for number in range(MESSAGES):
            producer.produce("t", str(number), partition=number % 6)
        assert producer.flush(PATIENCE_SECONDS) == 0
        produced = {zone: zone_bytes(each, "produced") for zone, each in running.items()}
        assert produced["b"]["same"] > 0
        assert {**produced["b"], "same": 0} == produced["a"] == produced["c"]

        values = read_all(client(running, "a", client_id="reader", client_rack="c"))
        assert sorted(values, key=int) == [str(number) for number in range(MESSAGES)]
        fetched = {zone: zone_bytes(each, "fetched") for zone, each in running.items()}
        assert fetched["c"]["same"] > 0
        assert {**fetched["c"], "same": 0} == fetched["a"] == fetched["b"]

        admin_url = running["b"].said["admin_url"].removeprefix("http://")
        told = tidegate("zones", "--admin", admin_url, cwd=tmp_path)
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout.endswith("No client crosses zones here.\n")


def test_wrong_zone_settings_end_the_start_with_a_sentence(tmp_path: Path) -> None:
    for setting, sentence in [
        ("zone.listener.map=EXTERNAL:a", "zone.listener.map names EXTERNAL, which is not in"),
        ("zone.cidr.map=a@10.0.0.0/8<>b@10.0.0.0/8", "10.0.0.0/8 is in zone a and in zone b;"),
    ]:
        listeners = "listeners=PLAINTEXT://127.0.0.1:0"
        done = tidegate("serve", "--set", listeners, "--set", setting, cwd=tmp_path)
        assert done.returncode != 0
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


def read_all(settings: dict[str, Any]) -> list[str]:
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        values: list[str] = []
        while len(values) < MESSAGES:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
        return values
    finally:
        consumer.close()
